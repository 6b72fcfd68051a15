package daemon

import (
	"context"
	"net/http"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/timeline"
)

func notBuilt(what string) error {
	return &control.Error{Code: http.StatusNotImplemented, Message: what + ": this build of the daemon has none yet"}
}

// SetController answers that it cannot.
func (d *Daemon) SetController(context.Context, control.ControllerRequest) (control.ControllerRequest, error) {
	return control.ControllerRequest{}, notBuilt("changes of the controllers")
}

// Watch answers that it cannot.
func (d *Daemon) Watch(context.Context, control.WatchRequest, func(timeline.Event)) error {
	return notBuilt("events")
}

// StartTraffic answers that it cannot.
func (d *Daemon) StartTraffic(context.Context, string, traffic.Spec) error {
	return notBuilt("traffic")
}

// Traffic answers that it cannot.
func (d *Daemon) Traffic(string) ([]traffic.Summary, error) { return nil, notBuilt("traffic") }

// StopTraffic answers that it cannot.
func (d *Daemon) StopTraffic(context.Context, string, string) (*traffic.End, error) {
	return nil, notBuilt("traffic")
}

// TrafficRecords answers that it cannot.
func (d *Daemon) TrafficRecords(context.Context, string, string, func(traffic.Record)) error {
	return notBuilt("traffic")
}
