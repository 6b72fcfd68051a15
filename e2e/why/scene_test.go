package why

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	sandboxfault "github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

const (
	// patience is how long a situation may take on a busy machine; pause is that between two looks.
	patience = 45 * time.Second
	pause    = 200 * time.Millisecond
)

// scene is where one situation is made: a namespace, and bases with a name of their own. Nothing is
// removed: all of it goes with the sandbox.
type scene struct {
	ctx   context.Context
	t     *testing.T
	name  string // of namespace, group, and bases
	bases []sandbox.Base
}

// newScene makes the namespace and the bases; set may be nil, for none.
func newScene(t *testing.T, name string, set *v1alpha1.BaseSet) *scene {
	t.Helper()
	s := &scene{ctx: t.Context(), t: t, name: name}
	_, err := client.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	check.Must(t, err)
	if set != nil {
		set.Name, set.BaseName = "base", name
		_, err = up.AddBases(s.ctx, sandbox.AddRequest{Count: 1, Group: name, Spec: set})
		check.Must(t, err)
	}
	return s
}

// in goes on with the scene in a test of its own, when its bases are Ready Nodes.
func (s *scene) in(t *testing.T, wanted bool) *scene {
	t.Helper()
	in := &scene{ctx: t.Context(), t: t, name: s.name}
	if !wanted {
		return in
	}
	check.Eventually(in.ctx, t, patience, "its base is a Ready Node", func(ctx context.Context) (err error) {
		if in.bases, err = up.Bases(ctx, s.name); err != nil {
			return err
		}
		for _, b := range in.bases {
			if b.Node == "" || !b.NodeReady {
				return fmt.Errorf("base %s has the node %q", b.HostName, b.Node)
			}
		}
		return nil
	})
	return in
}

// template is that of a module that the base of the scene takes.
func (s *scene) template(change ...func(*corev1.Pod)) corev1.PodTemplateSpec {
	t := module.Template("biz", module.Container("biz", "1.0.0"))
	t.Spec.NodeSelector = map[string]string{module.LabelBaseName: s.name}
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	for _, f := range change {
		f(p)
	}
	return corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

// pod creates a module Pod.
func (s *scene) pod(name string, change ...func(*corev1.Pod)) {
	s.t.Helper()
	_, err := client.CoreV1().Pods(s.name).Create(s.ctx, module.Pod(s.name, name, s.template(change...)), metav1.CreateOptions{})
	check.Must(s.t, err)
}

func (s *scene) deletePod(name string) {
	s.t.Helper()
	check.Must(s.t, client.CoreV1().Pods(s.name).Delete(s.ctx, name, metav1.DeleteOptions{}))
}

// patch changes a Pod, or, with the subresource status, what it says.
func (s *scene) patch(pod, patch string, subresources ...string) {
	s.t.Helper()
	_, err := client.CoreV1().Pods(s.name).Patch(s.ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	check.Must(s.t, err)
}

// patchNode changes the Node of the scene's base.
func (s *scene) patchNode(patch string) {
	s.t.Helper()
	_, err := client.CoreV1().Nodes().Patch(s.ctx, s.bases[0].Node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	check.Must(s.t, err)
}

// release lets the Node go that a finalizer holds: outages need Nodes to go.
func (s *scene) release() {
	_, err := client.CoreV1().Nodes().Patch(context.WithoutCancel(s.ctx), s.bases[0].Node, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
	check.Must(s.t, err)
}

// inject puts a fault into the base of the scene.
func (s *scene) inject(f fault.Fault) {
	s.t.Helper()
	_, err := up.SetFault(s.ctx, sandboxfault.Injection{Fault: v1alpha1.FaultOf(f), Bases: []string{s.bases[0].Identity}})
	check.Must(s.t, err)
}

// fails has a command fail with a code.
func (s *scene) fails(command, code, message string) {
	s.t.Helper()
	s.inject(fault.Fault{Kind: fault.KindError, Code: code, Message: message, Match: fault.Match{Commands: []string{command}}})
}

// words stand in what a cause is to name for what is known only when a scene is there.
func (s *scene) words(text string) string {
	host, node := "", ""
	if len(s.bases) > 0 {
		host, node = s.bases[0].HostName, s.bases[0].Node
	}
	return strings.NewReplacer("SCENE", s.name, "HOST", host, "NODE", node).Replace(text)
}

// ask is what the command why does.
func (s *scene) ask(ctx context.Context, target string) (why.Answer, error) {
	t, err := why.ParseTarget(s.words(target), s.name)
	if err != nil {
		return why.Answer{}, err
	}
	snapshot, err := why.Gather(ctx, client, t)
	if err != nil {
		return why.Answer{}, err
	}
	return why.Explain(snapshot, time.Now()), nil
}

// becomes waits until the answer about a target has the reason, and names what is wrong.
func (s *scene) becomes(target string, want why.Reason, names ...string) (last why.Answer) {
	s.t.Helper()
	look := func(ctx context.Context) error {
		a, err := s.ask(ctx, target)
		if err != nil {
			return err
		}
		if last = a; a.Reason != want {
			return errors.New("it has another reason")
		}
		for _, name := range names {
			if !strings.Contains(a.Cause, s.words(name)) {
				return fmt.Errorf("the cause does not name %q", s.words(name))
			}
		}
		return nil
	}
	var wrong error
	err := wait.PollUntilContextTimeout(s.ctx, pause, patience, true, func(ctx context.Context) (bool, error) {
		if now := look(ctx); ctx.Err() == nil {
			wrong = now
		}
		return wrong == nil, nil
	})
	if err != nil {
		s.t.Fatalf("%s does not become %s within %s: %v; the last answer is %s because of %q: %s\nevidence: %v",
			s.words(target), want, patience, wrong, last.Reason, last.Because, last.Cause, last.Evidence)
	}
	if !last.Ready && last.Advice == "" {
		s.t.Errorf("nothing says what to do about: %s", last.Cause)
	}
	return last
}
