// Package mochi runs an MQTT broker in the process of a test.
package mochi

import (
	"errors"
	"log/slog"
	"net"
	"sync"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

// Serve runs a broker, to which everybody may connect, on a listener until stop is called. Stop cuts the
// connections, and may be called once.
func Serve(on net.Listener) (stop func() error, err error) {
	server := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler)})
	through := &turnstile{Listener: on}
	err = errors.Join(server.AddHook(new(auth.AllowHook), nil), server.AddListener(gate{listeners.NewNet("tests", through), through}), server.Serve())
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	return server.Close, nil
}

// gate is a listener of mochi's that cuts its connections by itself. In v2.7.9 its own end takes the
// clients' read lock twice, and never gets it the second time when a client leaves in between.
type gate struct {
	*listeners.Net
	through *turnstile
}

func (g gate) Close(listeners.CloseFn) {
	g.Net.Close(func(string) { g.through.cut() })
}

// turnstile knows the connections that it has let in.
type turnstile struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (t *turnstile) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.conns = append(t.conns, conn)
	}
	return conn, err
}

func (t *turnstile) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range t.conns {
		_ = conn.Close() // many have ended long before
	}
}
