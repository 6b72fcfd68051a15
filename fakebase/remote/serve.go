package remote

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// maxQueued is how much a base may have to tell that nobody reads: some minutes of
// the busiest one.
const maxQueued = 1 << 16

// Serve runs any number of bases until conn or ctx ends. Each New on the other side of conn makes a base. The listener
// for module traffic is open from the start. If the patience is more than 0, conn ends when the other side has sent
// nothing for that time. The version of the program is part of About.
func Serve(ctx context.Context, conn net.Conn, ofProgram string, logger *slog.Logger, patience time.Duration) {
	h := &host{log: logger, ctx: ctx, bases: map[string]*server{}}
	mux := http.NewServeMux()
	rpc.HandleClock(mux)
	about.Handle(mux, func(context.Context, rpc.None) (About, error) {
		return About{Version: ofProgram, Address: ownAddress()}, nil
	})
	makeBase.Handle(mux, h.make)
	mux.HandleFunc("/{base}/{method}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("base")
		h.mu.Lock()
		s := h.bases[id]
		h.mu.Unlock()
		if s == nil {
			rpc.Refuse(w, rpc.Errorf(http.StatusConflict, "there is no such base"))
			return
		}
		http.StripPrefix("/"+id, s.handler).ServeHTTP(w, r)
	})
	stdio.Serve(ctx, conn, mux, patience)
}

// host has the bases of a process.
type host struct {
	log *slog.Logger
	ctx context.Context // of Serve: bases end with it

	mu    sync.Mutex
	made  int
	bases map[string]*server // by the identifier that make returned
}

type server struct {
	log     *slog.Logger
	told    rpc.Queue[message]
	base    *fakebase.Base
	handler http.Handler
	life    context.Context // of the base
	end     context.CancelFunc
	forget  func() // removes the base from its host
}

// handle answers a method with the result of do, and with the number of messages before it.
func handle[In, Out any](mux *http.ServeMux, s *server, m method[In, Out], do func(In) (Out, error)) {
	m.Handle(mux, func(_ context.Context, in In) (a rpc.After[Out], err error) {
		a.Answer, err = do(in)
		a.Count = s.told.Count()
		return a, err
	})
}

func (s *server) serve() http.Handler {
	mux := http.NewServeMux()
	follow.Handle(mux, s.follow)
	run.Handle(mux, s.run)
	stop.Handle(mux, func(context.Context, rpc.None) (rpc.None, error) {
		s.end()
		return rpc.None{}, nil
	})
	handle(mux, s, inject, s.base.Inject)
	handle(mux, s, clearFaults, func(ids []string) (int, error) { return s.base.Clear(ids...), nil })
	handle(mux, s, restart, func(identity string) (rpc.None, error) { return rpc.None{}, s.base.Restart(identity) })
	handle(mux, s, status, func(rpc.None) (fakebase.Status, error) { return s.base.Status(), nil })
	mux.HandleFunc("POST /"+connect, s.connect)
	return mux
}

// ownAddress returns an address of the machine, IPv4 if it has one. It is empty if the machine has no network.
func ownAddress() (address string) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || !p.Addr().IsGlobalUnicast():
		case p.Addr().Is4():
			return p.Addr().String()
		case address == "":
			address = p.Addr().String()
		}
	}
	return address
}

func (h *host) make(ctx context.Context, o Options) (snapshot, error) {
	o.Logger = h.log
	if o.MQTT != nil {
		config, err := o.brokerTLS()
		if err != nil {
			return snapshot{}, rpc.Errorf(http.StatusBadRequest, "%s", err)
		}
		o.MQTT.TLS = config
	}
	base, err := fakebase.New(o.Options)
	if err == nil {
		_, err = base.WebAddr(ctx)
	}
	if err != nil {
		return snapshot{}, err
	}
	s := &server{log: h.log, base: base}
	s.handler = s.serve()
	s.told.Limit(maxQueued)
	s.life, s.end = context.WithCancel(h.ctx) //nolint:contextcheck // a base outlives the request that makes it
	base.Trace(func(t fakebase.Trace) { s.told.Put(message{Trace: &t}) })
	now, _ := base.Follow(func(e fakebase.Event,
		after fakebase.Status) {
		s.told.Put(message{Event: &e, Status: &after})
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made++
	id := strconv.Itoa(h.made)
	h.bases[id] = s
	s.forget = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.bases, id)
	}
	return snapshot{id, now, base.Faults()}, nil
}

// follow sends everything that happens until the base has ended. There is one follower.
func (s *server) follow(ctx context.Context, _ rpc.None, send func(message)) error {
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
func (s *server) run(ctx context.Context, _ rpc.None) (rpc.None, error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)() //nolint:contextcheck // as in make
	err := s.base.Start(running)
	if !errors.Is(err, fakebase.ErrStarted) {
		s.end()
		s.told.Close()
		s.forget()
	}
	return rpc.None{}, err
}
