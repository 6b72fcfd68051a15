package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// The controllers stay what a run needs while what it has paused goes on: bringing them back restarts them, and
// it judges what they do then.
func TestControllersAreBroughtBackLast(t *testing.T) {
	d := &Daemon{}
	first := control.ControllerRequest{Replicas: 2}
	d.noteAction("run", "broker", component.Pause)
	d.noteControllers("run", first)
	d.noteControllers("run", control.ControllerRequest{Replicas: 3})
	for _, step := range []struct {
		name        string
		r           control.RepairRequest
		components  map[string]component.Action
		controllers *control.ControllerRequest
	}{
		{"another group", control.RepairRequest{Group: "other", Controllers: true}, nil, nil},
		{"components", control.RepairRequest{Group: "run"}, map[string]component.Action{"broker": component.Resume}, nil},
		{"controllers", control.RepairRequest{Group: "run", Controllers: true}, map[string]component.Action{}, &first},
		{"nothing is left", control.RepairRequest{Group: "run", Controllers: true}, nil, nil},
	} {
		now := d.pays(step.r)
		if diff := cmp.Diff(step.components, now.components); diff != "" {
			t.Errorf("%s: components (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.controllers, now.controllers); diff != "" {
			t.Errorf("%s: controllers (-want +got):\n%s", step.name, diff)
		}
	}
}
