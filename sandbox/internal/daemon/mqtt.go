package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const brokerName = "broker"

var errBrokerDown = errors.New("the broker is down")

// mqtt is the broker, which scenarios stop and start like a process. Address and
// passwords stay the same.
type mqtt struct {
	passwords broker.Passwords
	caFile    string // of the authority to trust; empty without TLS
	addr      string // host:port
	options   broker.Options
	changed   func(state supervise.State, why string) // is told of every new state; called with mu held

	mu        sync.Mutex
	running   *run
	paused    bool
	startedAt time.Time
	exit      string
}

// run is one life of the broker.
type run struct {
	broker *broker.Broker
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read after done
}

// newMQTT opens the broker's port and notes address and passwords in the state
// folder, for bases from outside.
func newMQTT(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox, p platform, log *slog.Logger,
	changed func(supervise.State, string)) (*mqtt, error) {
	host := loopback
	if inCluster(config) {
		if host = p.Host(); host == "" {
			return nil, errUnreachable
		}
	}
	m := &mqtt{passwords: broker.NewPasswords(), changed: changed}
	m.options = broker.Options{
		Addr:      net.JoinHostPort(host, strconv.Itoa(config.Spec.Broker.Port)),
		Env:       config.Spec.Env,
		Passwords: m.passwords,
		Logger:    log,
	}
	if config.Spec.Broker.TLS {
		certPEM, keyPEM, caFile, err := p.Serving(host, "localhost")
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("reading the broker's certificate: %w", err)
		}
		m.caFile = caFile
		m.options.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if err := m.open(ctx); err != nil {
		if port := config.Spec.Broker.Port; port != 0 {
			err = fmt.Errorf("%w; choose another spec.broker.port than %d, or 0 for any free one", err, port)
		}
		return nil, err
	}
	text, err := json.MarshalIndent(map[string]any{
		"addr": m.addr, "tls": config.Spec.Broker.TLS, "caFile": m.caFile, "clientPrefix": clientPrefix, "env": config.Spec.Env,
		"passwords": m.passwords,
	}, "", "  ")
	if err == nil {
		err = state.WriteFile(dir.Broker(), text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("noting the broker's address: %w", err), m.stop())
	}
	return m, nil
}

// open starts the broker for the first time; it gets its address by it.
func (m *mqtt) open(ctx context.Context) error {
	if err := m.start(ctx); err != nil {
		return err
	}
	m.addr = m.running.broker.Addr()
	m.options.Addr = m.addr
	return nil
}

// start starts the broker; one that runs stays as it is.
func (m *mqtt) start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running != nil {
		return nil
	}
	b, err := broker.New(m.options)
	if err != nil {
		return err
	}
	// The broker's life ends with stop, not with the command that asked for it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{broker: b, cancel: cancel, done: make(chan struct{})}
	m.running, m.paused, m.startedAt, m.exit = r, false, time.Now(), ""
	m.changed(supervise.Running, "")
	go func() {
		defer close(r.done)
		r.err = b.Start(life)
	}()
	return nil
}

// stop cuts all connections and ends the broker; stopping a stopped one is fine.
func (m *mqtt) stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.running
	if r == nil {
		return nil
	}
	r.cancel()
	<-r.done
	m.running, m.exit = nil, "stopped"
	m.changed(supervise.Exited, m.exit)
	return r.err
}

// pause halts the broker, or lets it go on: connections stay and nothing passes.
func (m *mqtt) pause(paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.running == nil:
		return &control.Error{Code: http.StatusConflict, Message: errBrokerDown.Error()}
	case m.paused == paused:
	case paused:
		m.running.broker.Pause()
		m.changed(supervise.Paused, "")
	default:
		m.running.broker.Resume()
		m.changed(supervise.Running, "")
	}
	m.paused = paused
	return nil
}

// dial connects a base through memory.
func (m *mqtt) dial(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	r := m.running
	m.mu.Unlock()
	if r == nil {
		return nil, errBrokerDown
	}
	return r.broker.Dial(ctx)
}

// status returns the counters, and the state; exit says how it ended.
func (m *mqtt) status() (stats broker.Stats, startedAt time.Time, state supervise.State, exit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.running == nil:
		return broker.Stats{}, m.startedAt, supervise.Exited, m.exit
	case m.paused:
		return m.running.broker.Stats(), m.startedAt, supervise.Paused, ""
	}
	return m.running.broker.Stats(), m.startedAt, supervise.Running, ""
}
