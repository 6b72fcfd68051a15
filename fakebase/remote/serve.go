package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// maxQueued is how much a base may have to tell that nobody reads: some minutes of
// the busiest one.
const maxQueued = 1 << 16

// Serve is one base: it learns over conn, from New on the other side, which one
// to be, and runs it until conn or ctx ends. Its listener for module traffic is
// open from the start, since others than that side may use it. The logger gets what the base has to
// say.
func Serve(ctx context.Context, conn net.Conn, logger *slog.Logger) {
	s := &server{log: logger}
	s.told.Limit(maxQueued)
	mux := http.NewServeMux()
	address.Handle(mux, func(context.Context, rpc.None) (string, error) { return ownAddress() })
	makeBase.Handle(mux, s.make)
	follow.Handle(mux, s.follow)
	life, end := context.WithCancel(ctx)
	defer end()
	run.Handle(mux, func(ctx context.Context, _ rpc.None) (rpc.None, error) { return s.run(ctx, life) })
	stop.Handle(mux, func(context.Context, rpc.None) (rpc.None, error) { end(); return rpc.None{}, nil })
	handle(mux, s, inject, func(_ context.Context, b *fakebase.Base, f fault.Fault) (string, error) { return b.Inject(f) })
	handle(mux, s, clearFaults, func(_ context.Context, b *fakebase.Base, ids []string) (int, error) { return b.Clear(ids...), nil })
	handle(mux, s, restart, func(_ context.Context, b *fakebase.Base, identity string) (rpc.None, error) {
		return rpc.None{}, b.Restart(identity)
	})
	handle(mux, s, webAddr, func(ctx context.Context, b *fakebase.Base, _ rpc.None) (string, error) { return b.WebAddr(ctx) })
	handle(mux, s, status, func(_ context.Context, b *fakebase.Base, _ rpc.None) (fakebase.Status, error) { return b.Status(), nil })
	stdio.Serve(ctx, conn, mux)
}

// handle answers a method with what a base says, and with how much the base had told before.
func handle[In, Out any](mux *http.ServeMux, s *server, m method[In, Out], do func(context.Context, *fakebase.Base, In) (Out, error)) {
	m.Handle(mux, func(ctx context.Context, in In) (a rpc.After[Out], err error) {
		b, err := s.theBase()
		if err == nil {
			a.Answer, err = do(ctx, b, in)
		}
		a.Count = s.told.Count()
		return a, err
	})
}

type server struct {
	log  *slog.Logger
	told rpc.Queue[message]

	mu   sync.Mutex
	base *fakebase.Base // set once
}

// ownAddress says where others reach this process: what a container knows of itself
// need not be asked from its engine.
func ownAddress() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("reading the addresses of the machine: %w", err)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String(), nil
		}
	}
	return "", errors.New("the machine has no address of IPv4 but its own")
}

func (s *server) make(ctx context.Context, o Options) (snapshot, error) {
	o.Logger, o.NewIdentity = s.log, uuid.NewString
	if len(o.BrokerCA) > 0 && o.MQTT != nil {
		o.MQTT.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !o.MQTT.TLS.RootCAs.AppendCertsFromPEM(o.BrokerCA) {
			return snapshot{}, rpc.Errorf(http.StatusBadRequest, "BrokerCA holds no PEM certificate")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base != nil {
		return snapshot{}, rpc.Errorf(http.StatusConflict, "there is a base already")
	}
	base, err := fakebase.New(o.Options)
	if err == nil {
		_, err = base.WebAddr(ctx)
	}
	if err != nil {
		return snapshot{}, err
	}
	s.base = base
	base.Trace(func(t fakebase.Trace) { s.told.Put(message{Trace: &t}) })
	now, _ := base.Follow(func(e fakebase.Event, after fakebase.Status) { s.told.Put(message{Event: &e, Status: &after}) })
	return snapshot{now, base.Faults()}, nil
}

// theBase returns the base that was made.
func (s *server) theBase() (*fakebase.Base, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == nil {
		return nil, rpc.Errorf(http.StatusConflict, "there is no base yet")
	}
	return s.base, nil
}

// follow tells what happens until the base has ended. There is one follower.
func (s *server) follow(ctx context.Context, _ rpc.None, send func(message)) error {
	b, err := s.theBase()
	if err != nil {
		return err
	}
	err = s.told.Read(ctx, func(m message) {
		if m.Trace != nil && m.Trace.Fault != nil {
			faults := b.Faults()
			m.Faults = &faults
		}
		send(m)
	})
	if err != nil {
		s.log.Error("nobody follows the base", "err", err)
	}
	return err
}

// run runs the base until life or the call ends, and answers when it has ended.
func (s *server) run(ctx, life context.Context) (rpc.None, error) {
	b, err := s.theBase()
	if err != nil {
		return rpc.None{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	if err = b.Start(ctx); !errors.Is(err, fakebase.ErrStarted) {
		s.told.Close()
	}
	return rpc.None{}, err
}
