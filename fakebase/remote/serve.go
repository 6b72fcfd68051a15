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

// maxQueued is the maximum number of messages in the queue of a base. A busy base takes several minutes to reach this
// limit.
const maxQueued = 1 << 16

// Serve runs the bases that a client at the other end of conn creates with New. It blocks until conn is closed or ctx
// is done. The listener for module traffic is opened when its base is created. If idleTimeout is more than 0, Serve
// closes conn when it has received no data for this time. version is reported as ProcessInfo.Version.
func Serve(ctx context.Context, conn net.Conn, version string, logger *slog.Logger, idleTimeout time.Duration) {
	h := &host{log: logger, ctx: ctx, bases: map[string]*server{}}
	mux := http.NewServeMux()
	rpc.HandleClock(mux)
	processInfo.Handle(mux, func(context.Context, rpc.Empty) (ProcessInfo, error) {
		return ProcessInfo{Version: version, Address: ownAddress()}, nil
	})
	makeBase.Handle(mux, h.createBase)
	mux.HandleFunc("/{base}/{method}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("base")
		h.mu.Lock()
		s := h.bases[id]
		h.mu.Unlock()
		if s == nil {
			rpc.WriteError(w, rpc.Errorf(http.StatusConflict, "base not found"))
			return
		}
		http.StripPrefix("/"+id, s.handler).ServeHTTP(w, r)
	})
	stdio.Serve(ctx, conn, mux, idleTimeout)
}

// host holds the bases of this process.
type host struct {
	log *slog.Logger
	ctx context.Context // context of Serve; its end stops all bases

	mu           sync.Mutex
	createdCount int
	bases        map[string]*server // by the base ID that createBase returned
}

type server struct {
	log      *slog.Logger
	messages rpc.Queue[message]
	base     *fakebase.Base
	handler  http.Handler
	ctx      context.Context // done when the base is stopped
	cancel   context.CancelFunc
	remove   func() // removes the base from the host
}

// handle registers the function do as the implementation of a method. The answer contains the number of messages that
// precede it.
func handle[In, Out any](mux *http.ServeMux, s *server, m method[In, Out], do func(In) (Out, error)) {
	m.Handle(mux, func(_ context.Context, in In) (a rpc.OrderedAnswer[Out], err error) {
		a.Answer, err = do(in)
		a.Count = s.messages.Count()
		return a, err
	})
}

func (s *server) serve() http.Handler {
	mux := http.NewServeMux()
	follow.Handle(mux, s.follow)
	run.Handle(mux, s.run)
	stop.Handle(mux, func(context.Context, rpc.Empty) (rpc.Empty, error) {
		s.cancel()
		return rpc.Empty{}, nil
	})
	handle(mux, s, inject, s.base.Inject)
	handle(mux, s, clearFaults, func(ids []string) (int, error) { return s.base.Clear(ids...), nil })
	handle(mux, s, restart, func(identity string) (rpc.Empty, error) { return rpc.Empty{}, s.base.Restart(identity) })
	handle(mux, s, status, func(rpc.Empty) (fakebase.Status, error) { return s.base.Status(), nil })
	mux.HandleFunc("POST /"+connect, s.connect)
	return mux
}

// ownAddress returns an IP address of this machine, preferably IPv4. It returns an empty string if there is none.
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

func (h *host) createBase(ctx context.Context, o Options) (snapshot, error) {
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
	s.messages.Limit(maxQueued)
	s.ctx, s.cancel = context.WithCancel(h.ctx) //nolint:contextcheck // a base outlives the request that creates it
	base.Trace(func(t fakebase.Trace) { s.messages.Put(message{Trace: &t}) })
	initial, _ := base.WatchStatus(func(e fakebase.Event, after fakebase.Status) {
		s.messages.Put(message{Event: &e, Status: &after})
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.createdCount++
	id := strconv.Itoa(h.createdCount)
	h.bases[id] = s
	s.remove = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.bases, id)
	}
	return snapshot{id, initial, base.Faults()}, nil
}

// follow sends all messages of the base until the base has ended. It is called once per base.
func (s *server) follow(ctx context.Context, _ rpc.Empty, send func(message)) error {
	err := s.messages.Read(ctx, func(m message) {
		if m.Trace != nil && m.Trace.Fault != nil {
			faults := s.base.Faults()
			m.Faults = &faults
		}
		send(m)
	})
	if err != nil {
		s.log.Error("could not send the events of the base", "err", err)
	}
	return err
}

// run runs the base until it is stopped or the call is canceled. It responds when the base has ended.
func (s *server) run(ctx context.Context, _ rpc.Empty) (rpc.Empty, error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() //nolint:contextcheck // as in createBase
	err := s.base.Start(running)
	if !errors.Is(err, fakebase.ErrStarted) {
		s.cancel()
		s.messages.Close()
		s.remove()
	}
	return rpc.Empty{}, err
}
