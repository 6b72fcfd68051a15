package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// maxQueued is how much a base may have to tell that nobody reads: some minutes of
// the busiest one.
const maxQueued = 1 << 16

// Serve is any number of bases: it learns over conn, from each New on the other side, which one to
// make, and runs them until conn or ctx ends. Their listeners for module traffic are open from the
// start, since others than that side may use them. The logger gets what the bases have to say. A
// patience of more than 0 is how long the other side may say nothing: then conn ends. The version is what
// Version tells.
func Serve(ctx context.Context, conn net.Conn, ofProgram string, logger *slog.Logger, patience time.Duration) {
	h := &host{log: logger, ctx: ctx, bases: map[string]*server{}}
	mux := http.NewServeMux()
	makeBase.Handle(mux, h.make)
	follow.Handle(mux, func(ctx context.Context, _ rpc.None, send func(message)) error {
		s, err := h.of(ctx)
		if err == nil {
			err = s.follow(ctx, send)
		}
		return err
	})
	run.Handle(mux, h.run)
	stop.Handle(mux, func(ctx context.Context, _ rpc.None) (rpc.None, error) {
		s, err := h.of(ctx)
		if err == nil {
			s.end()
		}
		return rpc.None{}, err
	})
	discard.Handle(mux, h.discard)
	handle(mux, h, inject, func(_ context.Context, b *fakebase.Base, f fault.Fault) (string, error) { return b.Inject(f) })
	handle(mux, h, clearFaults, func(_ context.Context, b *fakebase.Base, ids []string) (int, error) { return b.Clear(ids...), nil })
	handle(mux, h, restart, func(_ context.Context, b *fakebase.Base, identity string) (rpc.None, error) {
		return rpc.None{}, b.Restart(identity)
	})
	handle(mux, h, webAddr, func(ctx context.Context, b *fakebase.Base, _ rpc.None) (string, error) { return b.WebAddr(ctx) })
	handle(mux, h, status, func(_ context.Context, b *fakebase.Base, _ rpc.None) (fakebase.Status, error) { return b.Status(), nil })
	mux.HandleFunc("POST /"+connect, h.connect)
	own := http.NewServeMux()
	rpc.HandleClock(own)
	version.Handle(own, func(context.Context, rpc.None) (string, error) { return ofProgram, nil })
	address.Handle(own, func(context.Context, rpc.None) (string, error) { return ownAddress() })
	own.HandleFunc("/{base}/{method}", func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), nameKey{}, r.PathValue("base")))
		r.URL.Path = "/" + r.PathValue("method")
		mux.ServeHTTP(w, r)
	})
	stdio.Serve(ctx, conn, own, patience)
}

// handle answers a method with what a base says, and with how much the base had told before.
func handle[In, Out any](mux *http.ServeMux, h *host, m method[In, Out], do func(context.Context, *fakebase.Base, In) (Out, error)) {
	m.Handle(mux, func(ctx context.Context, in In) (a rpc.After[Out], err error) {
		s, err := h.of(ctx)
		if err != nil {
			return a, err
		}
		a.Answer, err = do(ctx, s.base, in)
		a.Count = s.told.Count()
		return a, err
	})
}

// host has the bases of a process.
type host struct {
	log *slog.Logger
	ctx context.Context // of Serve: bases end with it

	mu    sync.Mutex
	bases map[string]*server // by the name that their other side has drawn
}

// nameKey is where the context of a request has the name of its base.
type nameKey struct{}

func nameOf(ctx context.Context) string {
	name, _ := ctx.Value(nameKey{}).(string)
	return name
}

// server is one base.
type server struct {
	log  *slog.Logger
	told rpc.Queue[message]
	base *fakebase.Base
	life context.Context // of the base
	end  context.CancelFunc
}

// ownAddress says where others reach this process: what a Pod knows of itself
// need not be asked from its engine.
func ownAddress() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("reading the addresses of the machine: %w", err)
	}
	var other string // than one of IPv4
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || !p.Addr().IsGlobalUnicast():
		case p.Addr().Is4():
			return p.Addr().String(), nil
		case other == "":
			other = p.Addr().String()
		}
	}
	if other == "" {
		return "", errors.New("the machine has no address but that of itself")
	}
	return other, nil
}

func (h *host) make(ctx context.Context, o Options) (snapshot, error) {
	o.Logger, o.NewIdentity = h.log, uuid.NewString
	if o.MQTT != nil {
		config, err := o.brokerTLS()
		if err != nil {
			return snapshot{}, rpc.Errorf(http.StatusBadRequest, "%s", err)
		}
		o.MQTT.TLS = config
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := nameOf(ctx)
	if h.bases[name] != nil {
		return snapshot{}, rpc.Errorf(http.StatusConflict, "there is a base already")
	}
	base, err := fakebase.New(o.Options)
	if err == nil {
		_, err = base.WebAddr(ctx)
	}
	if err != nil {
		return snapshot{}, err
	}
	s := &server{log: h.log, base: base}
	s.told.Limit(maxQueued)
	s.life, s.end = context.WithCancel(h.ctx) //nolint:contextcheck // a base outlives the request that makes it
	h.bases[name] = s
	base.Trace(func(t fakebase.Trace) { s.told.Put(message{Trace: &t}) })
	now, _ := base.Follow(func(e fakebase.Event, after fakebase.Status) { s.told.Put(message{Event: &e, Status: &after}) })
	return snapshot{now, base.Faults()}, nil
}

// of returns the base that a request is for.
func (h *host) of(ctx context.Context) (*server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.bases[nameOf(ctx)]
	if s == nil {
		return nil, rpc.Errorf(http.StatusConflict, "there is no such base")
	}
	return s, nil
}

// forget gives the place of a base to others.
func (h *host) forget(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.bases, nameOf(ctx))
}

// discard ends a base that has not started, by having it start and end.
func (h *host) discard(ctx context.Context, _ rpc.None) (rpc.None, error) {
	s, err := h.of(ctx)
	if err != nil {
		return rpc.None{}, err
	}
	s.end()
	return h.run(ctx, rpc.None{})
}

// follow tells what happens until the base has ended. There is one follower.
func (s *server) follow(ctx context.Context, send func(message)) error {
	err := s.told.Read(ctx, func(m message) {
		if m.Trace != nil && m.Trace.Fault != nil {
			faults := s.base.Faults()
			m.Faults = &faults
		}
		send(m)
	})
	if err != nil {
		s.log.Error("nobody follows the base", "err", err)
	}
	return err
}

// run runs the base until its life or the call ends, and answers when it has ended.
func (h *host) run(ctx context.Context, _ rpc.None) (rpc.None, error) {
	s, err := h.of(ctx)
	if err != nil {
		return rpc.None{}, err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)() //nolint:contextcheck // as in make
	if err = s.base.Start(running); !errors.Is(err, fakebase.ErrStarted) {
		s.end()
		s.told.Close()
		h.forget(ctx)
	}
	return rpc.None{}, err
}
