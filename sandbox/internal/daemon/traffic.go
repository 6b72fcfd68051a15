package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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

// lost tells of a request that was lost.
func (d *Daemon) lost(l traffic.LostRequest) {
	r := l.Record
	d.streams.request(l.Group, r.Done, events.RequestEvent{
		Stream: l.Stream, Base: r.Base, Module: events.ModuleRef{Name: l.Module, Version: r.Version}, Route: l.Route,
		Result: r.Result, Message: r.Error, Elapsed: r.Done.Sub(r.Due),
	})
}

// StartTraffic starts a stream of requests for a group.
func (d *Daemon) StartTraffic(ctx context.Context, group string, s traffic.Spec) error {
	ctx, running, release, err := d.using(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.streams.open(group); err != nil {
		return err
	}
	f := running.flows
	err = f.Begin(ctx, group, s)
	switch {
	case errors.Is(err, traffic.ErrStreamExists):
		return &control.Error{Code: http.StatusConflict, Message: err.Error()}
	case err != nil && ctx.Err() == nil:
		return &control.Error{Code: http.StatusBadRequest, Message: err.Error()}
	case err != nil:
		return err
	}
	if err := d.streams.open(group); err != nil { // the owner went meanwhile, and may not have seen it
		f.Drop(ctx, group)
		return err
	}
	return nil
}

// Traffic tells how the streams of a group are.
func (d *Daemon) Traffic(ctx context.Context, group string) ([]traffic.Summary, error) {
	running, err := d.isUp()
	if err != nil {
		return nil, err
	}
	return running.flows.Summaries(ctx, group), nil
}

// StopTraffic stops a stream and waits for its open requests.
func (d *Daemon) StopTraffic(ctx context.Context, group, name string) (*traffic.End, error) {
	running, err := d.isUp()
	if err != nil {
		return nil, err
	}
	end, err := running.flows.Stop(ctx, group, name)
	if errors.Is(err, traffic.ErrNoStream) {
		err = asNotFound(err)
	}
	return end, err
}

// TrafficRecords calls sink for every request of a stream so far.
func (d *Daemon) TrafficRecords(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	running, err := d.isUp()
	if err != nil {
		return err
	}
	err = running.flows.Records(ctx, group, name, sink)
	if errors.Is(err, traffic.ErrNoStream) {
		err = asNotFound(err)
	}
	return err
}

// targets shows the fleet to the gateway and to streams.
type targets struct {
	ctx   context.Context // of listeners that are opened at their first use
	fleet *fleet.Fleet

	making singleflight.Group // of lists: every request asks for one
	mu     sync.Mutex         // never held while a base is asked
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

// Group returns the bases of a group; those of none are the sandbox's own.
func (t *targets) Group(group string) []traffic.Target {
	changes := t.fleet.Changes()
	t.mu.Lock()
	list, ok := t.groups[group]
	t.mu.Unlock()
	if ok && list.changes == changes {
		return list.all
	}
	all, _, _ := t.making.Do(fmt.Sprint(changes, " ", group), func() (any, error) { return t.list(group, changes), nil })
	return all.([]traffic.Target)
}

// list makes the list of a group, and keeps it unless somebody has kept a newer one.
func (t *targets) list(group string, changes uint64) []traffic.Target {
	members := t.fleet.Group(group)
	list := targetList{changes: changes, all: make([]traffic.Target, len(members))}
	for i, m := range members { // which takes seconds if a Pod of bases does not answer
		list.all[i] = t.target(m)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch known := t.groups[group]; {
	case len(members) == 0:
		delete(t.groups, group)
		return nil
	case known.changes > changes: // somebody else was faster, and saw more
		return known.all
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
