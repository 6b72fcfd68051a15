package controller

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/bench"
)

// A controller that cannot observe its bases leaves Nodes and Pods as they are, for however long that
// lasts, and goes on where it stood.
func TestWhatCannotBeObservedIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string // of the condition, of the Event and of the metric
		blind  func(t *testing.T, a area, p *process, during func())
	}{
		"the broker is unavailable": {"TunnelDown", func(t *testing.T, a area, _ *process, during func()) {
			a.stop()
			during()
			a.start(t)
		}},
		"the controller is suspended": {"ControllerSuspended", func(t *testing.T, _ area, p *process, during func()) {
			p.signal(t, syscall.SIGSTOP)
			during()
			p.signal(t, syscall.SIGCONT)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, ns, kind := newArea(t), namespace(t), kind()
			p := a.controller(t, "only", map[string]string{
				"BASE_UNREACHABLE_AFTER": unreachableAfter.String(), "BASE_DEAD_AFTER": deadAfter.String(),
				"HEALTH_INTERVAL": "1s", "LIST_INTERVAL": "1s", "MODULE_DRAIN": "200ms", "METRICS_ADDR": "127.0.0.1:0",
			})
			bases := make([]*base, 2) // too few for a mass silence
			for i := range bases {
				bases[i] = a.base(t, fakebase.Options{Name: kind, Activation: fakebase.ActivateNewModule})
			}
			nodesReady(t, bases...)
			spec := one("calm", "1.0.0", kind)
			module.OnePerBase(&spec)
			d := deployment(t, ns, "calm", 2, spec)
			rolled(t, d, bases, "1.0.0")
			f, before := record(t, ns), podNames(t, ns)
			c.blind(t, a, p, func() {
				began := time.Now()
				eventually(t, "time enough for bases to be dead has passed", func(context.Context) error {
					if passed := time.Since(began); passed < 3*deadAfter {
						return fmt.Errorf("%s have passed", passed)
					}
					return nil
				})
			})
			eventually(t, "the controller is ready", p.ready)
			eventually(t, "the reason is in a metric and in an Event of each Node", func(ctx context.Context) error { return unobserved(ctx, p, c.reason, bases) })
			for _, turn := range f.turns(t) {
				if !turn.ready {
					t.Errorf("Pod %s was not Ready all the time: %s", turn.pod.Name, describe(turn.pod))
				}
			}
			if err := same(before, podNames(t, ns)); err != nil {
				t.Errorf("the Pods %v", err)
			}
			upgrade(t, d, "2.0.0") // they are served as ever
			rolled(t, d, bases, "2.0.0")
		})
	}
}

// unobserved reports an error unless a metric and an Event of each Node give the reason why the bases were not
// observed.
func unobserved(ctx context.Context, p *process, reason string, bases []*base) error {
	addr, err := box.Logged(p.log, "msg=serving what=metrics addr=")
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	metrics, err := bench.ParseMetrics(answer.Body)
	if err != nil {
		return err
	}
	if metrics.Sum("module_controller_blindness_total", func(labels map[string]string) bool { return labels["reason"] == reason }) < 1 {
		return fmt.Errorf("module_controller_blindness_total does not count %s", reason)
	}
	for _, b := range bases {
		events, err := client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + b.node() + ",reason=" + reason})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 {
			return fmt.Errorf("node %s has no Event %s", b.node(), reason)
		}
	}
	return nil
}
