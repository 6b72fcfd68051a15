package control

import (
	"context"
	"net/http"
	"slices"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Service is what a daemon can do. An *Error decides the HTTP status of a
// failure; every other error is the daemon's own (500).
type Service interface {
	Status(ctx context.Context, bases bool) *Status
	// Up blocks until the sandbox is up; when ctx ends before the first up is
	// done, the sandbox is taken down. It calls sink for every step.
	Up(ctx context.Context, r UpRequest, sink func(progress.Event)) (*UpResult, error)
	// Down blocks until everything but the daemon itself has stopped.
	Down(ctx context.Context) error
	// Hold calls held, and blocks until ctx ends, which takes the sandbox down with its state folder, or
	// until somebody else has taken it down.
	Hold(ctx context.Context, held func())
	// Events calls sink for every step since the start until ctx or the daemon ends.
	Events(ctx context.Context, sink func(progress.Event))
	// Bases lists those of a group, or all if it is empty.
	Bases(group string) []Base
	AddBases(ctx context.Context, r AddRequest) ([]Base, error)
	RemoveBases(ctx context.Context, r RemoveRequest) ([]Base, error)
	RestartBase(ctx context.Context, base string, r RestartRequest) (*Base, error)
	Act(ctx context.Context, r ActRequest) error
	// Repair undoes what a group has done to components, and, if that is asked for, to controllers.
	Repair(context.Context, RepairRequest) error
	// SetFault returns the id of the fault.
	SetFault(ctx context.Context, i fault.Injection) (string, error)
	ClearFaults(r FaultSelector) error
	// Faults lists those of a group, or all if it is empty.
	Faults(group string) (Faults, error)
	// SetController returns what was before, when the controllers are ready.
	SetController(ctx context.Context, r ControllerRequest) (ControllerRequest, error)
	// Watch calls sink for every event, one at a time, until ctx or the daemon ends.
	// A sink that is too slow ends it with an error.
	Watch(ctx context.Context, r WatchRequest, sink func(events.Event)) error
	StartTraffic(ctx context.Context, group string, s traffic.Spec) error
	Traffic(ctx context.Context, group string) ([]traffic.Summary, error)
	StopTraffic(ctx context.Context, group, name string) (*traffic.End, error)
	// TrafficRecords calls sink for every request so far.
	TrafficRecords(ctx context.Context, group, name string, sink func(traffic.Record)) error
}

// Handler serves the control API.
func Handler(s Service) http.Handler {
	mux := http.NewServeMux()
	status.Handle(mux, func(ctx context.Context, r statusRequest) (*Status, error) { return s.Status(ctx, r.Bases), nil })
	up.Handle(mux, func(ctx context.Context, r UpRequest, send func(upStep)) error {
		if r.Config == nil {
			return rpc.Errorf(http.StatusBadRequest, "config is missing")
		}
		result, err := s.Up(ctx, r, func(e progress.Event) { send(upStep{Event: &e}) })
		if err == nil {
			send(upStep{Result: result})
		}
		return err
	})
	down.Handle(mux, func(ctx context.Context, _ rpc.None) (rpc.None, error) {
		return rpc.None{}, s.Down(context.WithoutCancel(ctx)) // a command that goes away has asked all the same
	})
	hold.Handle(mux, func(ctx context.Context, _ rpc.None, send func(rpc.None)) error {
		s.Hold(ctx, func() { send(rpc.None{}) })
		return nil
	})
	progressEvents.Handle(mux, func(ctx context.Context, _ rpc.None, send func(progress.Event)) error {
		s.Events(ctx, send)
		return nil
	})
	bases.Handle(mux, func(_ context.Context, r groupRequest) ([]Base, error) { return s.Bases(r.Group), nil })
	addBases.Handle(mux, s.AddBases)
	removeBases.Handle(mux, s.RemoveBases)
	restartBase.Handle(mux, func(ctx context.Context, r restartRequest) (*Base, error) {
		return s.RestartBase(ctx, r.Base, r.RestartRequest)
	})
	act.Handle(mux, func(ctx context.Context, r ActRequest) (rpc.None, error) {
		if !slices.Contains(component.Actions, r.Action) {
			return rpc.None{}, rpc.Errorf(http.StatusNotFound, "unknown action %s", r.Action)
		}
		return rpc.None{}, s.Act(ctx, r)
	})
	repair.Handle(mux, func(ctx context.Context, r RepairRequest) (rpc.None, error) { return rpc.None{}, s.Repair(ctx, r) })
	setFault.Handle(mux, s.SetFault)
	clearFaults.Handle(mux, func(_ context.Context, r FaultSelector) (rpc.None, error) { return rpc.None{}, s.ClearFaults(r) })
	faults.Handle(mux, func(_ context.Context, r groupRequest) (Faults, error) { return s.Faults(r.Group) })
	setController.Handle(mux, s.SetController)
	watch.Handle(mux, s.Watch)
	startTraffic.Handle(mux, func(ctx context.Context, r startTrafficRequest) (rpc.None, error) {
		return rpc.None{}, s.StartTraffic(ctx, r.Group, r.Spec)
	})
	trafficOf.Handle(mux, func(ctx context.Context, r groupRequest) ([]traffic.Summary, error) { return s.Traffic(ctx, r.Group) })
	stopTraffic.Handle(mux, func(ctx context.Context, r streamRequest) (*traffic.End, error) {
		return s.StopTraffic(ctx, r.Group, r.Name)
	})
	trafficRecords.Handle(mux, func(ctx context.Context, r streamRequest, send func(traffic.Record)) error {
		return s.TrafficRecords(ctx, r.Group, r.Name, send)
	})
	return mux
}
