package controller

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// A controller that cannot observe its bases leaves Nodes and Pods as they are, for however long that
// lasts, and goes on where it stood.
func TestWhatCannotBeObservedIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	for name, blind := range map[string]func(t *testing.T, a area, p *process, during func()){
		"the broker is away": func(t *testing.T, a area, _ *process, during func()) {
			a.stop()
			during()
			a.start(t)
		},
		"the controller stands still": func(t *testing.T, _ area, p *process, during func()) {
			p.signal(t, syscall.SIGSTOP)
			during()
			p.signal(t, syscall.SIGCONT)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, ns, kind := newArea(t), namespace(t), kind()
			p := a.controller(t, "only", map[string]string{
				"BASE_UNREACHABLE_AFTER": unreachableAfter.String(), "BASE_DEAD_AFTER": deadAfter.String(),
				"HEALTH_INTERVAL": "1s", "LIST_INTERVAL": "1s", "MODULE_DRAIN": "200ms",
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
			blind(t, a, p, func() {
				began := time.Now()
				eventually(t, "time enough for bases to be dead has passed", func(context.Context) error {
					if passed := time.Since(began); passed < 3*deadAfter {
						return fmt.Errorf("%s have passed", passed)
					}
					return nil
				})
			})
			eventually(t, "the controller is ready", p.ready)
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
