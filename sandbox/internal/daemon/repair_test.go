package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

func (b *fixture) checkReplicas(when string, replicas int) {
	b.t.Helper()
	b.daemon.mu.Lock()
	got := b.daemon.controllers.Replicas
	b.daemon.mu.Unlock()
	if got != replicas {
		b.t.Errorf("%s: %d replicas requested, want %d", when, got, replicas)
	}
}

func (b *fixture) setReplicas(group string, replicas int) {
	b.t.Helper()
	if _, err := b.SetController(b.t.Context(),
		control.ControllerRequest{Group: group, Replicas: replicas}); err != nil {
		b.t.Fatal(err)
	}
}

// TestRepairRestoresControllersLast checks that components are resumed before the controllers are restored, because
// restoring the controllers restarts them.
func TestRepairRestoresControllersLast(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 1))
	b.setReplicas("run", 2)
	b.setReplicas("run", 3)
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "broker", Action: supervise.Pause, Group: "run"}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.daemon.Repair(over, control.RepairRequest{Group: "run"}); err == nil {
		t.Error("Repair resumed the broker although its context had ended")
	}
	for _, step := range []struct {
		name     string
		r        control.RepairRequest
		replicas int
	}{
		{"after the repair of another group", control.RepairRequest{Group: "other", Controllers: true}, 3},
		{"after the repair of components", control.RepairRequest{Group: "run"}, 3},
		{"after the repair of controllers", control.RepairRequest{Group: "run", Controllers: true}, 0},
	} {
		if err := b.Repair(t.Context(), step.r); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		b.checkReplicas(step.name, step.replicas)
	}
	status, err := b.Status(t.Context(), false)
	check.Must(t, err)
	if got := components(status)["broker"]; got != "running true" {
		t.Errorf("the broker is %q", got)
	}
	b.daemon.mu.Lock()
	defer b.daemon.mu.Unlock()
	if r := b.daemon.repairs; len(r.components) != 0 || r.changer != "" {
		t.Errorf("remaining repairs: %+v", r)
	}
}

// failingRunner is a ControllerRunner whose Ensure method returns an error while fails is true.
type failingRunner struct {
	ControllerRunner
	fails *atomic.Bool
}

func (s failingRunner) Ensure(ctx context.Context, c v1alpha1.Controller) error {
	if s.fails.Load() {
		return errors.New("timed out after 1m")
	}
	return s.ControllerRunner.Ensure(ctx, c)
}

// TestRepairRetriesControllers checks that Repair discards the controller request of a group even if restoring the
// controllers fails, and that the next Repair tries to restore them again.
func TestRepairRetriesControllers(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 1))
	b.setReplicas("run", 2)
	var fails atomic.Bool
	fails.Store(true)
	b.daemon.mu.Lock()
	b.daemon.assembly.runner = failingRunner{b.daemon.assembly.runner, &fails}
	b.daemon.mu.Unlock()
	back := control.RepairRequest{Group: "run", Controllers: true}
	if err := b.Repair(t.Context(), back); err == nil {
		t.Error("Repair did not report the failure")
	}
	b.checkReplicas("after the failure", 0)
	if got := len(b.controllers()); got != 2 {
		t.Errorf("%d controllers after the failure, want 2", got)
	}
	fails.Store(false)
	if err := b.Repair(t.Context(), back); err != nil {
		t.Error(err)
	}
	if got := len(b.controllers()); got != 1 {
		t.Errorf("%d controllers after the second Repair, want 1", got)
	}
}

// TestRepairAfterChangesOfTwoGroups checks that, after two groups have changed the controllers, the repair of the
// last group restores the original controllers.
func TestRepairAfterChangesOfTwoGroups(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 1))
	b.setReplicas("first", 2)
	b.setReplicas("second", 3)
	var got []int
	for _, group := range []string{"first", "second"} {
		if err := b.Repair(t.Context(), control.RepairRequest{Group: group, Controllers: true}); err != nil {
			t.Error(err)
		}
		got = append(got, len(b.controllers()))
	}
	if diff := cmp.Diff([]int{3, 1}, got); diff != "" {
		t.Errorf("controllers after the repair of each group (-want +got):\n%s", diff)
	}
}
