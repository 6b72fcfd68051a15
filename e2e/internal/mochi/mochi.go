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

// Serve runs a broker without access control on listener. stop closes the listener and all connections, and must be
// called only once.
func Serve(listener net.Listener) (stop func() error, err error) {
	server := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler)})
	tracked := &trackingListener{Listener: listener}
	err = errors.Join(server.AddHook(new(auth.AllowHook), nil),
		server.AddListener(brokerListener{listeners.NewNet("tests", tracked), tracked}), server.Serve())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return server.Close, nil
}

// brokerListener closes its connections without using the broker's client list. In mochi v2.7.9, closing a listener
// acquires the read lock of the client list twice, which deadlocks if a client disconnects in between.
type brokerListener struct {
	*listeners.Net
	tracked *trackingListener
}

// Close closes the listener and its connections.
func (l brokerListener) Close(listeners.CloseFn) {
	l.Net.Close(func(string) { l.tracked.closeConnections() })
}

// trackingListener records the connections that it accepts.
type trackingListener struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

// Accept implements net.Listener.
func (t *trackingListener) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.conns = append(t.conns, conn)
	}
	return conn, err
}

// closeConnections closes all accepted connections.
func (t *trackingListener) closeConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range t.conns {
		_ = conn.Close() // many connections are already closed
	}
}
