package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = time.Minute
)

// eventually waits until check finds nothing wrong; otherwise it fails the test
// with what was wrong last.
func eventually(ctx context.Context, t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	check.Eventually(ctx, t, patience, what, look)
}

// must fails the test on an error.
var must = check.Must

type namespaceKey struct{}

// step is a step of a feature that needs the namespace of the feature.
func step(f func(ctx context.Context, t *testing.T, namespace string)) features.Func {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		t.Helper()
		name, _ := ctx.Value(namespaceKey{}).(string)
		f(ctx, t, name)
		return ctx
	}
}

// isolate creates a namespace for a feature. The state of the sandbox is kept if the test fails.
func isolate(ctx context.Context, _ *envconf.Config, t *testing.T, _ types.Feature) (context.Context, error) {
	name := envconf.RandomName("e2e", 12)
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return ctx, err
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if t.Failed() {
			dump(ctx, t, shared)
		}
		must(t, client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
	})
	return context.WithValue(ctx, namespaceKey{}, name), nil
}

// matching returns an error unless each base of the shared sandbox has a Ready Node, and there are no other Nodes.
func matching(ctx context.Context) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	list, err := up.Bases(ctx, "")
	if err != nil {
		return err
	}
	want, got := map[string]bool{}, map[string]bool{}
	for _, b := range list {
		want["vnode."+b.Identity] = true
	}
	for i := range nodes.Items {
		got[nodes.Items[i].Name] = check.NodeReady(&nodes.Items[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("bases and their Ready Nodes (-bases +Nodes):\n%s", diff)
	}
	return nil
}

// pods lists the Pods of a namespace, the oldest first, without those that are
// being deleted.
func pods(ctx context.Context, c kubernetes.Interface, namespace string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(left, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return left, nil
}

// installed tells what the bases have of a module name, by address.
func installed(ctx context.Context, s *sandbox.Sandbox, name string) (map[string][]string, error) {
	list, err := s.Bases(ctx, "")
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, b := range list {
		for _, m := range b.Modules {
			if len(m) > len(name) && m[:len(name)+1] == name+":" {
				found[b.IP] = append(found[b.IP], m)
			}
		}
	}
	return found, nil
}

// serving checks that exactly want Pods are in a namespace, all Running and
// Ready, and that the bases, asked themselves, have exactly what these Pods say.
func serving(ctx context.Context, b *box.Box, namespace string, want int) error {
	c, err := b.Client()
	if err != nil {
		return err
	}
	s, err := b.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return serves(ctx, c, s, namespace, want)
}

func serves(ctx context.Context, c kubernetes.Interface, s *sandbox.Sandbox, namespace string, want int) error {
	list, err := pods(ctx, c, namespace)
	if err != nil {
		return err
	}
	if len(list) != want {
		return fmt.Errorf("there are %d Pods, not %d", len(list), want)
	}
	promised := map[string]map[string][]string{} // by module name, then address
	for _, p := range list {
		if !module.IsReady(&p) {
			return fmt.Errorf("pod %s is not Ready: %s", p.Name, describe(&p))
		}
		for _, container := range p.Spec.Containers {
			if promised[container.Name] == nil {
				promised[container.Name] = map[string][]string{}
			}
			at := promised[container.Name]
			at[p.Status.PodIP] = append(at[p.Status.PodIP], container.Name+":"+container.Env[0].Value+" ACTIVATED")
		}
	}
	for name, at := range promised {
		for ip := range at { // two Pods of one version on a base share the module
			slices.Sort(at[ip])
			at[ip] = slices.Compact(at[ip])
		}
		found, err := installed(ctx, s, name)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(at, found); diff != "" {
			return fmt.Errorf("module %s: what the Pods promise (-) is not what the bases have (+):\n%s", name, diff)
		}
	}
	return nil
}

// describe says how a Pod is, in one line.
func describe(p *corev1.Pod) string {
	text := fmt.Sprintf("phase %q on node %q", p.Status.Phase, p.Spec.NodeName)
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			text += fmt.Sprintf(", not %s (%s: %s)", c.Type, c.Reason, c.Message)
		}
	}
	return text
}
