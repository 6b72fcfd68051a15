package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
)

const (
	// queueTCP is the maximum number of messages queued for a TCP client, such as the controller. It must be large
	// enough for the responses of 10,000 bases to one round of queries. Mochi reserves 8 bytes per message.
	queueTCP = 1 << 16
	// queueMemory is the maximum number of messages queued for a base in this process. Such a base only receives
	// commands from the controller.
	queueMemory = 1 << 8
	// maxInflight is the maximum number of unacknowledged messages per client. The broker drops further messages. The
	// limit is low because mochi copies and sorts all unacknowledged messages every second.
	maxInflight = 1 << 15
	// readBufferMemory is the size of the read buffer of an in-memory client. A typical command fits; a longer
	// command needs several reads.
	readBufferMemory = 512
	// largestPacket is the maximum size of an MQTT packet in bytes. The bundled controller accepts packets of up to 1
	// MiB.
	largestPacket = 8 << 20
	// statisticsSeconds is the update interval of mochi's $SYS topics, in seconds. No user has permission to read
	// these topics.
	statisticsSeconds = 60
)

// Options are the options of a Broker.
type Options struct {
	ListenOptions
	// Env is the environment in the topics koupleless_<env>/..., in lower case (protocol 3.2). Required.
	Env string
	// Passwords contains the passwords of the two users. Default: random passwords.
	Passwords Passwords
}

// Broker is an MQTT broker. All methods may be called concurrently.
type Broker struct {
	*listener
	server       *mqtt.Server
	memoryServer *memoryServer
	passwords    Passwords
}

// New creates a broker and opens its port. The broker accepts connections after Start.
func New(o Options) (*Broker, error) {
	l, err := listen(o.ListenOptions)
	if err != nil {
		return nil, fmt.Errorf("opening the broker's port: %w", err)
	}
	passwords := o.Passwords
	if passwords == (Passwords{}) {
		passwords = NewPasswords()
	}
	limits := mqtt.NewDefaultServerCapabilities()
	limits.MaximumClientWritesPending = queueTCP
	limits.MaximumInflight = maxInflight
	limits.ReceiveMaximum = math.MaxUint16
	limits.MaximumPacketSize = largestPacket
	// Mochi logs thousands of dropped messages per second. Stats has their number instead.
	server := mqtt.New(&mqtt.Options{Capabilities: limits, Logger: slog.New(slog.DiscardHandler),
		SysTopicResendInterval: statisticsSeconds})

	// Mochi takes the queue and buffer sizes of a client from the options of its server. All state of a server is
	// behind pointers, so a copy with other options shares the state.
	small := *server.Options
	smallLimits := *limits
	smallLimits.MaximumClientWritesPending = queueMemory
	small.Capabilities = &smallLimits
	small.ClientNetReadBufferSize = readBufferMemory
	forMemory := *server
	forMemory.Options = &small

	hook := &access{passwords: passwords, root: "koupleless_" + strings.ToLower(o.Env) + "/", log: l.log}
	earlier := &takeover{clients: server.Clients}
	memoryServer := newMemoryServer(&forMemory, hook, earlier)
	l.serve = func(_ context.Context, conn net.Conn, memory bool) {
		var err error
		if memory {
			err = memoryServer.establish(conn)
		} else {
			err = server.EstablishConnection("", conn)
		}
		l.log.Debug("client disconnected", "err", err)
	}
	if err := errors.Join(server.AddHook(hook, nil), server.AddHook(earlier, nil)); err != nil {
		return nil, errors.Join(fmt.Errorf("adding the hooks of the broker: %w", err), l.tcp.Close())
	}
	return &Broker{listener: l, server: server, memoryServer: memoryServer, passwords: passwords}, nil
}

// Start runs the broker and blocks until ctx ends. Then it closes all connections and returns nil. Start can be
// called only once.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("running the broker: %w", err)
	}
	b.run(ctx)
	b.memoryServer.close()
	if err := b.server.Close(); err != nil {
		return fmt.Errorf("closing the broker: %w", err)
	}
	return nil
}

// Passwords returns the passwords of the two users.
func (b *Broker) Passwords() Passwords { return b.passwords }

// Stats contains counters that are collected from the start of the broker.
type Stats struct {
	Clients          int64 `json:"clients"`          // number of connected clients
	Subscriptions    int64 `json:"subscriptions"`    // number of current subscriptions
	MessagesReceived int64 `json:"messagesReceived"` // messages received from clients
	MessagesSent     int64 `json:"messagesSent"`     // messages sent to clients
	Dropped          int64 `json:"dropped"`          // messages that were not delivered
	Inflight         int64 `json:"inflight"`         // unacknowledged QoS 1 messages
	Retained         int64 `json:"retained"`         // retained messages; a controller should retain none
}

// Err always returns nil. Only a Relay, which connects to an external broker, can return an error.
func (b *Broker) Err() error { return nil }

// Stats returns the counters.
func (b *Broker) Stats() *Stats {
	i := b.server.Info.Clone()
	return &Stats{
		Clients:          i.ClientsConnected,
		Subscriptions:    i.Subscriptions,
		MessagesReceived: i.MessagesReceived,
		MessagesSent:     i.MessagesSent,
		Dropped:          i.MessagesDropped + i.InflightDropped,
		Inflight:         i.Inflight,
		Retained:         i.Retained,
	}
}
