package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// bringUpGateway opens the gateway's port and lets traffic flow. It follows
// Services from their first use on; until then it is one listener.
func (d *Daemon) bringUpGateway(client kubernetes.Interface) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening the gateway's port: %w", err)
	}
	targets := &targets{ctx: d.life, fleet: func() *fleet.Fleet { return d.now().fleet }}
	gateway := traffic.NewGateway(traffic.GatewayOptions{Client: client, Targets: targets, Logger: d.log.With("component", "gateway")})
	generator := traffic.NewGenerator(traffic.GeneratorOptions{Gateway: gateway, Targets: targets, Lost: d.lost})
	f := &flows{here: generator}
	parts := []func(context.Context) error{gateway.Start, generator.Start}
	if nodes, ok := d.now().platform.(launcher); ok {
		f.services, f.routed = client.CoreV1(), d.routed
		f.inside = agent.New(agent.Options{Launch: d.launchAgent(nodes), Lost: d.lost, Logger: d.log.With("component", agent.Command)})
		parts = append(parts, f.inside.Start)
	}
	d.serve(listener, gateway)
	for _, part := range parts {
		d.parts.Go(func() {
			if err := part(d.life); err != nil {
				d.log.Error("traffic ended", "err", err)
			}
		})
	}
	d.made(func(s *sandbox) { s.gateway, s.proxy, s.flows = listener.Addr().String(), gateway, f })
	return nil
}

// serve serves a part of the gateway until the sandbox ends.
func (d *Daemon) serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	d.parts.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("gateway ended", "err", err)
		}
	})
	d.parts.Go(func() {
		<-d.life.Done()
		_ = server.Close() // nobody is left to hear of it
	})
}

// openCommands opens the way to bases for controllers that are not on this machine, at an address of it in their network, and returns
// the URL with its password. It is opened once.
func (d *Daemon) openCommands(host string) (string, error) {
	s := d.now()
	if s.commands != "" {
		return s.commands, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("opening the port for commands to bases: %w", err)
	}
	password := rand.Text()
	d.serve(l, s.proxy.Commands(controllerName, password))
	u := url.URL{Scheme: "http", User: url.UserPassword(controllerName, password), Host: l.Addr().String()}
	d.made(func(s *sandbox) { s.commands = u.String() })
	return u.String(), nil
}

// lost tells of a request that was lost.
func (d *Daemon) lost(l traffic.LostRequest) {
	r := l.Record
	d.streams.request(l.Group, timeline.Event{
		Time: r.Done, Base: r.Base, Version: r.Version, Name: l.Stream, Route: l.Route,
		State: string(r.Result), Message: r.Error, Elapsed: r.Done.Sub(r.Due),
	})
}

// StartTraffic starts a stream of requests for a group.
func (d *Daemon) StartTraffic(ctx context.Context, group string, s traffic.Spec) error {
	ctx, release, err := d.using(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.streams.open(group); err != nil {
		return err
	}
	f := d.now().flows
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
	f := d.now().flows
	if f == nil {
		return nil, notUp()
	}
	return f.Summaries(ctx, group), nil
}

// StopTraffic stops a stream and waits for its open requests.
func (d *Daemon) StopTraffic(ctx context.Context, group, name string) (*traffic.End, error) {
	f := d.now().flows
	if f == nil {
		return nil, notUp()
	}
	end, err := f.Stop(ctx, group, name)
	if errors.Is(err, traffic.ErrNoStream) {
		err = asNotFound(err)
	}
	return end, err
}

// TrafficRecords calls sink for every request of a stream so far.
func (d *Daemon) TrafficRecords(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	f := d.now().flows
	if f == nil {
		return notUp()
	}
	err := f.Records(ctx, group, name, sink)
	if errors.Is(err, traffic.ErrNoStream) {
		err = asNotFound(err)
	}
	return err
}

// targets shows the fleet to the gateway and to streams.
type targets struct {
	ctx   context.Context // of listeners that are opened at their first use
	fleet func() *fleet.Fleet

	mu     sync.Mutex
	groups map[string]targetList
}

type targetList struct {
	changes uint64 // of the fleet when it was made
	all     []traffic.Target
}

// ByIP returns the base with an address.
func (t *targets) ByIP(ip string) (traffic.Target, bool) {
	f := t.fleet()
	if f == nil {
		return traffic.Target{}, false
	}
	m, ok := f.ByIP(ip)
	if !ok {
		return traffic.Target{}, false
	}
	return t.target(m), true
}

// Group returns the bases of a group; those of none are the sandbox's own.
func (t *targets) Group(group string) []traffic.Target {
	f := t.fleet()
	if f == nil {
		return nil
	}
	changes := f.Changes()
	t.mu.Lock()
	defer t.mu.Unlock()
	if list, ok := t.groups[group]; ok && list.changes == changes {
		return list.all
	}
	members := f.Group(group)
	if len(members) == 0 {
		delete(t.groups, group)
		return nil
	}
	list := targetList{changes: changes, all: make([]traffic.Target, len(members))}
	for i, m := range members {
		list.all[i] = t.target(m)
	}
	if t.groups == nil {
		t.groups = map[string]targetList{}
	}
	t.groups[group] = list
	return list.all
}

func (t *targets) target(m *fleet.Member) traffic.Target {
	target := traffic.Target{IP: m.IP, Base: m.Name(), Host: m.HostName, Arklet: m.Base.HTTPAddr()}
	if web, err := m.Base.WebAddr(t.ctx); err == nil { // without one nobody listens: that is told
		target.Web = web
	}
	return target
}
