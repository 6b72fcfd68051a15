package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// broker is an MQTT broker that lets everybody in and notes what the base says.
type broker struct {
	server   *mqtt.Server
	addr     string
	tap      *recording.Tap
	messages chan recording.Message // but for heartbeats and the question for a baseline
	hello    chan struct{}          // the base has subscribed, and asked for its baseline

	mu       sync.Mutex
	listener net.Listener // nil = stopped
	conns    map[net.Conn]struct{}
	serving  sync.WaitGroup
}

func openBroker() (*broker, error) {
	b := &broker{
		server:   mqtt.New(&mqtt.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)}),
		tap:      &recording.Tap{ClientID: "koupleless@@@b1", Prefix: root},
		messages: make(chan recording.Message, 1000), hello: make(chan struct{}, 10),
		addr: "127.0.0.1:0", conns: map[net.Conn]struct{}{},
	}
	err := errors.Join(b.server.AddHook(new(auth.AllowHook), nil), b.server.AddHook(b.tap, nil))
	if err == nil {
		err = b.server.Subscribe(root+"base/+", 1, b.take)
	}
	if err == nil {
		err = b.server.Serve()
	}
	if err == nil {
		err = b.listen()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a broker: %w", err)
	}
	return b, nil
}

func (b *broker) take(_ *mqtt.Client, _ packets.Subscription, pk packets.Packet) {
	switch topic := strings.TrimPrefix(pk.TopicName, root); topic {
	case "base/heart", baseline:
	case "base/queryBaseline":
		b.hello <- struct{}{}
	default:
		b.messages <- recording.Message{Topic: topic, Payload: string(pk.Payload)}
	}
}

func (b *broker) waitConnected(ctx context.Context) error {
	select {
	case <-b.hello:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the base at the broker: %w", ctx.Err())
	}
}

// listen opens the port: the first time any, then the same.
func (b *broker) listen() error {
	l, err := net.Listen("tcp", b.addr)
	if err != nil {
		return fmt.Errorf("listening for the base: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listener, b.addr = l, l.Addr().String()
	b.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // stop has closed it
			}
			b.serve(conn)
		}
	})
	return nil
}

func (b *broker) serve(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[conn] = struct{}{}
	b.serving.Go(func() {
		_ = b.server.EstablishConnection("tcp", conn) // how it ends is the base's business
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, conn)
	})
}

// listening tells whether the port is open.
func (b *broker) listening() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listener != nil
}

// cut breaks the connections.
func (b *broker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		_ = conn.Close() // it is to break
	}
}

// stop breaks the connections, and listens no more.
func (b *broker) stop() {
	b.mu.Lock()
	l := b.listener
	b.listener = nil
	b.mu.Unlock()
	if l != nil {
		_ = l.Close() // what counts is that nobody listens
	}
	b.cut()
	b.serving.Wait()
}

func (b *broker) close() {
	b.stop()
	_ = b.server.Close() // the recordings are written
}
