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

func (b *bench) wanted(when string, replicas int) {
	b.t.Helper()
	b.daemon.mu.Lock()
	got := b.daemon.controllers.Replicas
	b.daemon.mu.Unlock()
	if got != replicas {
		b.t.Errorf("%s there are to be %d controllers, want %d", when, got, replicas)
	}
}

func (b *bench) changes(group string, replicas int) {
	b.t.Helper()
	if _, err := b.SetController(b.t.Context(),
		control.ControllerRequest{Group: group, Replicas: replicas}); err != nil {
		b.t.Fatal(err)
	}
}

// The controllers stay what a run needs while what it has paused goes on: bringing them back restarts them, and
// it judges what they do then.
func TestControllersAreBroughtBackLast(t *testing.T) {
	b := newBench(t)
	b.up(request("good", 1))
	b.changes("run", 2)
	b.changes("run", 3)
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "broker", Action: supervise.Pause, Group: "run"}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.daemon.Repair(over, control.RepairRequest{Group: "run"}); err == nil {
		t.Error("the broker is resumed by whoever has no time for it")
	}
	for _, step := range []struct {
		name     string
		r        control.RepairRequest
		replicas int
	}{
		{"after another group's repair", control.RepairRequest{Group: "other", Controllers: true}, 3},
		{"after that of components", control.RepairRequest{Group: "run"}, 3},
		{"after that of controllers", control.RepairRequest{Group: "run", Controllers: true}, 0},
	} {
		if err := b.Repair(t.Context(), step.r); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		b.wanted(step.name, step.replicas)
	}
	status, err := b.Status(t.Context(), false)
	check.Must(t, err)
	if got := components(status)["broker"]; got != "running true" {
		t.Errorf("the broker is %q", got)
	}
	b.daemon.mu.Lock()
	defer b.daemon.mu.Unlock()
	if r := b.daemon.repairs; len(r.components) != 0 || r.changer != "" {
		t.Errorf("not repaired: %+v", r)
	}
}

// late is a ControllerRunner that does not come to an end as long as it is told.
type late struct {
	ControllerRunner
	is *atomic.Bool
}

func (s late) Ensure(ctx context.Context, c v1alpha1.Controller) error {
	if s.is.Load() {
		return errors.New("not within 1m")
	}
	return s.ControllerRunner.Ensure(ctx, c)
}

// What a run wanted of the controllers ends with it, even if they take too long to be what they were.
func TestControllersThatTakeTooLong(t *testing.T) {
	b := newBench(t)
	b.up(request("good", 1))
	b.changes("run", 2)
	var is atomic.Bool
	is.Store(true)
	b.daemon.mu.Lock()
	b.daemon.assembly.runner = late{b.daemon.assembly.runner, &is}
	b.daemon.mu.Unlock()
	back := control.RepairRequest{Group: "run", Controllers: true}
	if err := b.Repair(t.Context(), back); err == nil {
		t.Error("nobody says that they took too long")
	}
	b.wanted("after that", 0)
	if got := len(b.controllers()); got != 2 {
		t.Errorf("there are %d controllers", got)
	}
	is.Store(false)
	if err := b.Repair(t.Context(), back); err != nil {
		t.Error(err)
	}
	if got := len(b.controllers()); got != 1 {
		t.Errorf("when they are brought back once more there are %d controllers", got)
	}
}

// Of two groups that change the controllers the last one brings back what was before both.
func TestControllersOfTwoGroups(t *testing.T) {
	b := newBench(t)
	b.up(request("good", 1))
	b.changes("first", 2)
	b.changes("second", 3)
	var got []int
	for _, group := range []string{"first", "second"} {
		if err := b.Repair(t.Context(), control.RepairRequest{Group: group, Controllers: true}); err != nil {
			t.Error(err)
		}
		got = append(got, len(b.controllers()))
	}
	if diff := cmp.Diff([]int{3, 1}, got); diff != "" {
		t.Errorf("controllers after the end of each group (-want +got):\n%s", diff)
	}
}
