package daemon

import (
	"context"
	"net/http"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// api returns the HTTP handler of the control API. An *rpc.Error determines the HTTP status of its response. All
// other errors result in status 500.
func (d *Daemon) api() http.Handler {
	mux := http.NewServeMux()
	control.MethodStatus.Handle(mux, func(ctx context.Context, r control.StatusRequest) (*control.Status, error) {
		return d.Status(ctx, r.Bases), nil
	})
	control.MethodUp.Handle(mux, func(ctx context.Context, r control.UpRequest, send func(control.UpStep)) error {
		if r.Config == nil {
			return badRequest("config is missing")
		}
		result, err := d.Up(ctx, r, func(e progress.Event) { send(control.UpStep{Event: &e}) })
		if err == nil {
			send(control.UpStep{Result: result})
		}
		return err
	})
	control.MethodDown.Handle(mux, noResult(func(context.Context, rpc.Empty) error { return d.Down() }))
	control.MethodHold.Handle(mux, func(ctx context.Context, _ rpc.Empty, send func(rpc.Empty)) error {
		d.Hold(ctx, func() { send(rpc.Empty{}) })
		return nil
	})
	control.MethodBases.Handle(mux, d.Bases)
	control.MethodAddBases.Handle(mux, d.AddBases)
	control.MethodRemoveBases.Handle(mux, d.RemoveBases)
	control.MethodRestartBase.Handle(mux, d.RestartBase)
	control.MethodAct.Handle(mux, noResult(d.Act))
	control.MethodRepair.Handle(mux, noResult(d.Repair))
	control.MethodSetFault.Handle(mux, d.SetFault)
	control.MethodClearFaults.Handle(mux, noResult(d.ClearFaults))
	control.MethodFaults.Handle(mux, d.Faults)
	control.MethodSetController.Handle(mux, d.SetController)
	control.MethodWatch.Handle(mux, d.Watch)
	control.MethodStartTraffic.Handle(mux, noResult(d.StartTraffic))
	control.MethodTraffic.Handle(mux, d.Traffic)
	control.MethodStopTraffic.Handle(mux, d.StopTraffic)
	control.MethodTrafficRecords.Handle(mux, d.TrafficRecords)
	return mux
}

// noResult wraps a function that returns only an error, for use as a control method with an empty result.
func noResult[In any](f func(context.Context, In) error) func(context.Context, In) (rpc.Empty, error) {
	return func(ctx context.Context, in In) (rpc.Empty, error) { return rpc.Empty{}, f(ctx, in) }
}

func badRequest(format string, args ...any) error {
	return rpc.Errorf(http.StatusBadRequest, format, args...)
}

func conflict(format string, args ...any) error {
	return rpc.Errorf(http.StatusConflict, format, args...)
}

func notFound(format string, args ...any) error {
	return rpc.Errorf(http.StatusNotFound, format, args...)
}
