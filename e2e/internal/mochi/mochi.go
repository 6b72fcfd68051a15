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

// Serve runs a broker without access control on a listener until stop is called. stop closes the connections, and may be
// called once.
func Serve(on net.Listener) (stop func() error, err error) {
	server := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler)})
	through := &turnstile{Listener: on}
	err = errors.Join(server.AddHook(new(auth.AllowHook), nil),
		server.AddListener(gate{listeners.NewNet("tests", through), through}), server.Serve())
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	return server.Close, nil
}

// gate closes its connections itself. In mochi v2.7.9, the end of a listener takes the read lock of the clients twice, and
// blocks if a client disconnects in between.
type gate struct {
	*listeners.Net
	through *turnstile
}

func (g gate) Close(listeners.CloseFn) {
	g.Net.Close(func(string) { g.through.cut() })
}

// turnstile records the connections that it accepts.
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
