package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// A Pod that names no module says why: in its container, in its conditions, and
// by an Event in its namespace. It can be deleted like any other.
func TestBadPods(t *testing.T) {
	const app = "bad"
	good := module.Container(app, "1.0.0")
	for name, c := range map[string]struct {
		spoil           func(*corev1.Container)
		reason, message string
	}{
		"no version": {
			spoil:  func(c *corev1.Container) { c.Env = nil },
			reason: "InvalidParameter",
			message: `OtherUpstream.InvalidParameter: container "bad" has no environment variable BIZ_VERSION, ` +
				`which names the module's version; check the parameters`,
		},
		"image is an image": {
			spoil:  func(c *corev1.Container) { c.Image = "nginx:1.27" },
			reason: "DecodeURLFailed",
			message: `OtherUpstream.DecodeURLFailed: image "nginx:1.27" of container "bad" is not a file://, http:// or https:// URL ` +
				`of a module's jar; check that the URL is valid`,
		},
		"image names no jar": {
			spoil:   func(c *corev1.Container) { c.Image = "https://modules.example" },
			reason:  "DecodeURLFailed",
			message: `OtherUpstream.DecodeURLFailed: image "https://modules.example" of container "bad" does not name a jar; check that the URL is valid`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := features.New("bad pod").
				Setup(step(func(ctx context.Context, t *testing.T, ns string) {
					bad := *good.DeepCopy()
					c.spoil(&bad)
					_, err := client.CoreV1().Pods(ns).Create(ctx, module.Pod(ns, app, module.Template(app, bad)), metav1.CreateOptions{})
					must(t, err)
				})).
				Assess("says why", step(func(ctx context.Context, t *testing.T, ns string) {
					eventually(ctx, t, "a Warning is in the namespace", func(ctx context.Context) error { return warned(ctx, ns, app, c.reason) })
					eventually(ctx, t, "container and condition tell what is wrong", func(ctx context.Context) error {
						return tells(ctx, ns, app, c.reason, c.message)
					})
					must(t, spread(ctx, app, 0))
				})).
				Assess("is deleted", step(func(ctx context.Context, t *testing.T, ns string) {
					must(t, client.CoreV1().Pods(ns).Delete(ctx, app, metav1.DeleteOptions{}))
					eventually(ctx, t, "the Pod is gone", func(ctx context.Context) error { return gone(ctx, ns, app) })
				}))
			testenv.Test(t, f.Feature())
		})
	}
}

// tells compares what container, condition and Event of a Pod say.
func tells(ctx context.Context, namespace, name, reason, message string) error {
	p, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	type told struct{ Where, Reason, Message string }
	var got []told
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			got = append(got, told{"container", w.Reason, w.Message})
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			got = append(got, told{"condition", c.Reason, c.Message})
		}
	}
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",type=Warning"})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		got = append(got, told{"event", e.Reason, e.Message})
	}
	want := []told{{"container", reason, message}, {"condition", reason, message}, {"event", reason, message}}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("what the Pod tells (-want +got):\n%s", diff)
	}
	return nil
}

// A base has a module of one name once for each version; two containers of one
// name are refused by the API itself.
func TestTwoContainersOfOneName(t *testing.T) {
	f := features.New("two containers of one name").
		Assess("is refused", step(func(ctx context.Context, t *testing.T, ns string) {
			p := module.Pod(ns, "twice", module.Template("twice", module.Container("twice", "1.0.0"), module.Container("twice", "2.0.0")))
			_, err := client.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.containers[1].name: Duplicate value: "twice"`) {
				t.Errorf("the API server answers: %v", err)
			}
		}))
	testenv.Test(t, f.Feature())
}
