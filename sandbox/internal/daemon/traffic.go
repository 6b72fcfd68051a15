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

// serve serves a part of the gateway until ctx ends, or the listener is closed.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // nobody is left to hear of it
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (d *Daemon) lost(l traffic.LostRequest) {
	r := l.Record
	d.streams.request(l.Group, r.Done, events.RequestEvent{
		Stream: l.Stream, Base: r.Base, Module: events.ModuleRef{Name: l.Module, Version: r.Version}, Route: l.Route,
		Result: r.Result, Message: r.Error, Elapsed: r.Done.Sub(r.Due),
	})
}

// StartTraffic starts a stream of requests for a group.
func (d *Daemon) StartTraffic(ctx context.Context, r control.StartTrafficRequest) error {
	ctx, running, release, err := d.using(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.streams.open(r.Group); err != nil {
		return err
	}
	err = running.flows.Begin(ctx, r.Group, r.Spec)
	switch {
	case errors.Is(err, traffic.ErrStreamExists):
		return conflict("%v", err)
	case err != nil && ctx.Err() == nil:
		return badRequest("%v", err)
	case err != nil:
		return err
	}
	if err := d.streams.open(r.Group); err != nil { // the owner went meanwhile, and may not have seen it
		running.flows.Drop(ctx, r.Group)
		return err
	}
	return nil
}

// Traffic lists the streams of a group.
func (d *Daemon) Traffic(ctx context.Context, r control.GroupRequest) ([]traffic.Summary, error) {
	running, err := d.isUp()
	if err != nil {
		return nil, err
	}
	return running.flows.Summaries(ctx, r.Group), nil
}

// StopTraffic stops a stream and waits for its open requests.
func (d *Daemon) StopTraffic(ctx context.Context, r control.StreamRequest) (*traffic.StreamResult, error) {
	running, err := d.isUp()
	if err != nil {
		return nil, err
	}
	end, err := running.flows.Stop(ctx, r.Group, r.Name)
	if errors.Is(err, traffic.ErrNoStream) {
		err = notFound("%v", err)
	}
	return end, err
}

// TrafficRecords calls sink for every request of a stream so far.
func (d *Daemon) TrafficRecords(ctx context.Context, r control.StreamRequest, sink func(traffic.Record)) error {
	running, err := d.isUp()
	if err != nil {
		return err
	}
	err = running.flows.Records(ctx, r.Group, r.Name, sink)
	if errors.Is(err, traffic.ErrNoStream) {
		err = notFound("%v", err)
	}
	return err
}

// targets shows the fleet to the gateway and to streams.
type targets struct {
	ctx   context.Context // of listeners that are opened at their first use
	fleet *fleet.Fleet

	mu     sync.Mutex // never held while a base is asked
	groups map[string]targetList
}

type targetList struct {
	changes uint64 // of the fleet when it was made
	all     []traffic.Target
}

// ByIP returns the base with an address.
func (t *targets) ByIP(ip string) (traffic.Target, bool) {
	m, ok := t.fleet.ByIP(ip)
	if !ok {
		return traffic.Target{}, false
	}
	return t.target(m), true
}

// Group returns the bases of a group; those of none are the sandbox's own. It keeps the list until the fleet changes,
// because a Pod of bases that does not answer delays a new one.
func (t *targets) Group(group string) []traffic.Target {
	changes := t.fleet.Changes()
	t.mu.Lock()
	list, ok := t.groups[group]
	t.mu.Unlock()
	if ok && list.changes == changes {
		return list.all
	}
	list = targetList{changes: changes}
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
	if web, err := m.Base.WebAddr(t.ctx); err == nil { // without one nobody listens: that is told
		target.Web = web
	}
	return target
}
