package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/port"
	"github.com/koupleless/koupsandbox/sandbox/internal/valve"
)

const (
	// queueTCP is how many messages may wait for a client that comes through TCP.
	// The controller is such a client: all answers of 10,000 bases to one round
	// of questions, and then some, must fit. mochi reserves 8 bytes for each.
	queueTCP = 1 << 16
	// queueMemory is the same for a base in memory, which gets only what the
	// controller sends to it: commands for 256 modules at once fit, and what it is asked in half an hour
	// in which it reads nothing; 2 KiB for each base.
	queueMemory = 1 << 8
	// maxInflight is how many messages a client may leave unacknowledged; what comes then is dropped, as other
	// brokers do it earlier. mochi copies and sorts all of them every second: 60,000, which a controller had
	// that was short of processor time, kept the broker from everything else.
	maxInflight = 1 << 15
	// readBufferMemory suffices for a usual command; a longer one takes two reads.
	readBufferMemory = 512
	// largestPacket is the most that one MQTT packet may have, in bytes: enough to see what a controller
	// does with a message of more than the 1 MiB that ours reads.
	largestPacket = 8 << 20
	// statisticsSeconds is how often mochi publishes its $SYS topics, which nobody
	// may read here.
	statisticsSeconds = 60
)

// Options of a Broker.
type Options struct {
	// Addr to listen on. Default: 127.0.0.1:0, any free port.
	Addr string
	// Env is the environment in the topics, koupleless_<env>/...; upper case is
	// lowered (protocol 3.4). Required.
	Env string
	// Passwords of the two users. Default: new ones.
	Passwords Passwords
	// TLS of the TCP listener. Default: nil, plain TCP.
	TLS *tls.Config
	// View disturbs the connections. Default: nothing does.
	View *mqttfault.View
	// Logger for what the broker has to say. Default: nothing is logged.
	Logger *slog.Logger

	// inflight is how many messages a client may leave unacknowledged; tests have few. Default: maxInflight.
	inflight uint16
}

// Broker is an MQTT broker. All methods may be called concurrently.
type Broker struct {
	server    *mqtt.Server
	tcp       *gate
	memory    *gate
	lobby     *lobby
	valve     *valve.Valve
	passwords Passwords
}

// New opens the listening socket, so that Addr is known; nothing is served
// before Start. An address in use is an error that says so.
func New(o Options) (*Broker, error) {
	log := slog.New(newSeldom(cmp.Or(o.Logger, slog.New(slog.DiscardHandler)).Handler()))
	passwords := o.Passwords
	if passwords == (Passwords{}) {
		passwords = NewPasswords()
	}
	listener, err := port.Listen(cmp.Or(o.Addr, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("opening the broker's port: %w", err)
	}
	if o.TLS != nil {
		listener = tls.NewListener(listener, o.TLS)
	}

	limits := mqtt.NewDefaultServerCapabilities()
	limits.MaximumClientWritesPending = queueTCP
	limits.MaximumInflight = cmp.Or(o.inflight, maxInflight)
	limits.ReceiveMaximum = math.MaxUint16
	limits.MaximumPacketSize = largestPacket
	server := mqtt.New(&mqtt.Options{Capabilities: limits, Logger: log, SysTopicResendInterval: statisticsSeconds})

	// mochi sizes a client's queue and buffer by the options of the server handle
	// that it comes through. All state of a server is behind pointers, so a copy
	// of the handle with smaller options is the same server for smaller clients.
	small := *server.Options
	smallLimits := *limits
	smallLimits.MaximumClientWritesPending = queueMemory
	small.Capabilities = &smallLimits
	small.ClientNetReadBufferSize = readBufferMemory
	handle := *server
	handle.Options = &small

	hook := &access{passwords: passwords, root: "koupleless_" + strings.ToLower(o.Env) + "/", log: log}
	earlier := &takeover{clients: server.Clients}
	inMemory := newLobby(&handle, hook, earlier)
	v := valve.New(nil)
	b := &Broker{
		valve:     v,
		lobby:     inMemory,
		server:    server,
		tcp:       newGate("tcp", server.EstablishConnection, listener, through(v, o.View), log),
		memory:    newGate("memory", inMemory.establish, nil, through(v, o.View), log),
		passwords: passwords,
	}
	err = server.AddHook(hook, nil)
	if err == nil {
		err = server.AddHook(earlier, nil)
	}
	for _, g := range []*gate{b.tcp, b.memory} {
		if err == nil {
			err = server.AddListener(g)
		}
	}
	if err != nil {
		_ = listener.Close() // the first error is the one to tell
		return nil, fmt.Errorf("preparing the broker: %w", err)
	}
	return b, nil
}

// through leads connections of clients through a valve and, if there is one, a view.
func through(v *valve.Valve, view *mqttfault.View) func(net.Conn) net.Conn {
	return func(conn net.Conn) net.Conn {
		if conn = v.Through(conn); view != nil {
			conn = view.Through(conn, v1alpha1.ToBroker)
		}
		return conn
	}
}

// Start serves until ctx ends; then it cuts all connections and returns nil. It
// can be called once.
func (b *Broker) Start(ctx context.Context) error {
	err := b.server.Serve()
	if err == nil {
		<-ctx.Done()
	}
	if closeErr := b.server.Close(); err == nil {
		err = closeErr
	}
	b.lobby.close()
	if err != nil {
		return fmt.Errorf("running the broker: %w", err)
	}
	return nil
}

// Addr is the host:port that the broker listens on.
func (b *Broker) Addr() string { return b.tcp.Address() }

// Passwords returns the secrets of the two users.
func (b *Broker) Passwords() Passwords { return b.passwords }

// Dial connects through memory, for a base of the same process; it never blocks.
// The connection carries plain MQTT even when the broker's port speaks TLS. It
// fails after the broker has ended.
func (b *Broker) Dial(context.Context) (net.Conn, error) {
	client, server := pipe("memory")
	if err := b.memory.admit(server); err != nil {
		return nil, err
	}
	return client, nil
}

// Pause lets nothing pass any more until Resume: connections stay and new ones are
// taken, but nothing is answered, as if the broker's process was stopped.
func (b *Broker) Pause() { b.valve.Set(true) }

// Resume lets everything pass again, what has waited first.
func (b *Broker) Resume() { b.valve.Set(false) }

// Stats are counters since the start of the broker.
type Stats struct {
	Clients          int64 `json:"clients"`          // connected now
	Subscriptions    int64 `json:"subscriptions"`    // now
	MessagesReceived int64 `json:"messagesReceived"` // published to the broker
	MessagesSent     int64 `json:"messagesSent"`     // sent by the broker
	Dropped          int64 `json:"dropped"`          // not delivered, for any reason
	Inflight         int64 `json:"inflight"`         // sent with QoS 1 and not acknowledged yet
	Retained         int64 `json:"retained"`         // kept for later subscribers; a controller should keep none
}

// Trouble is nil: nothing lies between the broker and its clients.
func (b *Broker) Trouble() error { return nil }

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
