package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// serve serves HTTP until ctx ends or the listener is closed.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // the error has no receiver
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (d *Daemon) reportLostRequest(l traffic.LostRequest) {
	r := l.Record
	d.hub.publishRequest(l.Group, r.Done, events.RequestEvent{
		Stream: l.Stream, Base: r.Base, Module: events.ModuleRef{Name: l.Module, Version: r.Version}, Route: l.Route,
		Result: r.Result, Message: r.Error, Elapsed: r.Done.Sub(r.Due),
	})
}

// StartTraffic starts a request stream for a group.
func (d *Daemon) StartTraffic(ctx context.Context, r control.StartTrafficRequest) error {
	ctx, running, release, err := d.withRunning(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.hub.checkOpen(r.Group); err != nil {
		return err
	}
	err = running.traffic.Begin(ctx, r.Group, r.Spec)
	switch {
	case errors.Is(err, traffic.ErrStreamExists):
		return conflict("%v", err)
	case err != nil && ctx.Err() == nil:
		return badRequest("%v", err)
	case err != nil:
		return err
	}
	if err := d.hub.checkOpen(r.Group); err != nil { // the owner may have disconnected before the stream was listed
		running.traffic.Drop(ctx, r.Group)
		return err
	}
	return nil
}

// Traffic returns the request counts of each stream of a group.
func (d *Daemon) Traffic(ctx context.Context, r control.GroupRequest) ([]traffic.Summary, error) {
	running, err := d.requireUp()
	if err != nil {
		return nil, err
	}
	return running.traffic.Summaries(ctx, r.Group), nil
}

// StopTraffic stops a request stream and blocks until its in-flight requests have completed.
func (d *Daemon) StopTraffic(ctx context.Context, r control.StreamRequest) (*traffic.StreamResult, error) {
	running, err := d.requireUp()
	if err != nil {
		return nil, err
	}
	end, err := running.traffic.Stop(ctx, r.Group, r.Name)
	if errors.Is(err, traffic.ErrNoStream) {
		err = notFound("%v", err)
	}
	return end, err
}

// TrafficRecords calls sink for each recorded request of a stream.
func (d *Daemon) TrafficRecords(ctx context.Context, r control.StreamRequest, sink func(traffic.Record)) error {
	running, err := d.requireUp()
	if err != nil {
		return err
	}
	err = running.traffic.Records(ctx, r.Group, r.Name, sink)
	if errors.Is(err, traffic.ErrNoStream) {
		err = notFound("%v", err)
	}
	return err
}

// targets provides the bases of the fleet as request targets for the gateway and the request generator.
type targets struct {
	ctx   context.Context // context for listeners that are opened on first use
	fleet *fleet.Fleet

	mu     sync.Mutex // not held during calls to a base
	groups map[string]targetList
}

type targetList struct {
	generation uint64 // fleet.Generation when the list was created
	all        []traffic.Target
}

// ByIP returns the base with the given IP address.
func (t *targets) ByIP(ip string) (traffic.Target, bool) {
	m, ok := t.fleet.ByIP(ip)
	if !ok {
		return traffic.Target{}, false
	}
	return t.target(m), true
}

// Group returns the bases of a group, or the bases outside groups if group is empty. It caches the list until the
// fleet changes, because creating a list takes long if a Pod does not respond.
func (t *targets) Group(group string) []traffic.Target {
	generation := t.fleet.Generation()
	t.mu.Lock()
	list, ok := t.groups[group]
	t.mu.Unlock()
	if ok && list.generation == generation {
		return list.all
	}
	list = targetList{generation: generation}
	for _, m := range t.fleet.Group(group) {
		list.all = append(list.all, t.target(m))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(list.all) == 0 {
		delete(t.groups, group)
		return nil
	}
	if t.groups == nil {
		t.groups = map[string]targetList{}
	}
	t.groups[group] = list
	return list.all
}

func (t *targets) target(m *fleet.Member) traffic.Target {
	target := traffic.Target{IP: m.IP(), Base: m.Name(), Host: m.HostName, Port: m.WebPort}
	target.Arklet, target.ArkletPort = m.Arklet()
	if web, err := m.Base.WebAddr(t.ctx); err == nil { // without an address, requests to the base fail
		target.Web = web
	}
	return target
}
