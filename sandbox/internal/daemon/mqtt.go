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
	"os"
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

// login is a user of the broker.
type login struct{ user, password string }

// way is what leads to the broker: the sandbox's own one, or a relay to the user's.
type way interface {
	Start(ctx context.Context) error
	Addr() string
	Dial(ctx context.Context) (net.Conn, error)
	Pause()
	Resume()
}

// mqtt is the broker, which scenarios stop and start like a process. Address and
// logins stay the same. When it is the user's, they cut and restore the way there:
// the broker itself is not ours.
type mqtt struct {
	controller, base login
	caFile           string // of the authority to trust; empty without TLS
	addr             string // host:port
	url              string // of the user's broker; empty with one of the sandbox's own
	open             func(addr string) (way, error)
	changed          func(state supervise.State, why string) // is told of every new state; called with mu held

	mu        sync.Mutex
	running   *run
	paused    bool
	startedAt time.Time
	exit      string
}

// run is one life of the broker, or of the way to it.
type run struct {
	way    way
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read after done
}

// mqttOptions of newMQTT.
type mqttOptions struct {
	dir      state.Dir
	config   *v1alpha1.Sandbox
	platform platform
	external *broker.External // nil = a broker of the sandbox's own
	log      *slog.Logger
	changed  func(supervise.State, string)
}

// newMQTT opens the broker's port and notes in the state folder, for bases from
// outside, how to reach it.
func newMQTT(ctx context.Context, o mqttOptions) (*mqtt, error) {
	spec := o.config.Spec
	host := loopback
	if onNetwork(o.config) {
		if host = o.platform.Host(); host == "" {
			return nil, unreachable(o.config)
		}
	}
	m := &mqtt{changed: o.changed}
	var serving *tls.Config
	if spec.Broker.TLS {
		certPEM, keyPEM, caFile, err := o.platform.Serving(host, "localhost")
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("reading the broker's certificate: %w", err)
		}
		m.caFile = caFile
		serving = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	note := map[string]any{"tls": spec.Broker.TLS, "caFile": m.caFile, "clientPrefix": clientPrefix, "env": spec.Env}
	if e := o.external; e != nil { // whose password stays where the user keeps it
		m.url, m.controller = e.URL(), login{e.Username, e.Password}
		m.base = m.controller
		m.open = func(addr string) (way, error) {
			return broker.NewRelay(broker.RelayOptions{Addr: addr, TLS: serving, To: e, Logger: o.log})
		}
		note["url"], note["username"] = m.url, e.Username
	} else {
		passwords := broker.NewPasswords()
		m.controller, m.base = login{broker.ControllerUser, passwords.Controller}, login{broker.BaseUser, passwords.Base}
		m.open = func(addr string) (way, error) {
			return broker.New(broker.Options{Addr: addr, Env: spec.Env, Passwords: passwords, TLS: serving, Logger: o.log})
		}
		note["passwords"] = passwords
	}
	m.addr = net.JoinHostPort(host, strconv.Itoa(spec.Broker.Port))
	if err := m.start(ctx); err != nil {
		if port := spec.Broker.Port; port != 0 {
			err = fmt.Errorf("%w; choose another spec.broker.port than %d, or 0 for any free one", err, port)
		}
		return nil, err
	}
	m.addr = m.running.way.Addr() // which it keeps from now on
	note["addr"] = m.addr
	text, err := json.MarshalIndent(note, "", "  ")
	if err == nil {
		err = state.WriteFile(o.dir.Broker(), text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("noting the broker's address: %w", err), m.stop())
	}
	return m, nil
}

// start starts the broker, or opens the way to it; one that runs stays as it is.
func (m *mqtt) start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running != nil {
		return nil
	}
	w, err := m.open(m.addr)
	if err != nil {
		return err
	}
	// The broker's life ends with stop, not with the command that asked for it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{way: w, cancel: cancel, done: make(chan struct{})}
	m.running, m.paused, m.startedAt, m.exit = r, false, time.Now(), ""
	m.changed(supervise.Running, "")
	go func() {
		defer close(r.done)
		r.err = w.Start(life)
	}()
	return nil
}

// stop cuts all connections and ends the broker, or the way to it; stopping a
// stopped one is fine.
func (m *mqtt) stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.running
	if r == nil {
		return nil
	}
	r.cancel()
	<-r.done
	m.running, m.exit = nil, m.said("stopped", "cut")
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
		m.running.way.Pause()
		m.changed(supervise.Paused, "")
	default:
		m.running.way.Resume()
		m.changed(supervise.Running, "")
	}
	m.paused = paused
	return nil
}

// dial connects a base.
func (m *mqtt) dial(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	r := m.running
	m.mu.Unlock()
	if r == nil {
		return nil, errBrokerDown
	}
	return r.way.Dial(ctx)
}

// said chooses the word for what was done to the broker, or to the way to it.
func (m *mqtt) said(broker, way string) string {
	if m.url == "" {
		return broker
	}
	return fmt.Sprintf("the way to %s is %s; the broker itself is not touched", m.url, way)
}

// component is the broker as a component.
func (m *mqtt) component() control.Component {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := control.Component{Name: brokerName, State: string(supervise.Running), Ready: true, PID: os.Getpid(), StartedAt: m.startedAt}
	switch {
	case m.running == nil:
		c.State, c.Ready, c.PID, c.Reason, c.Exit = string(supervise.Exited), false, 0, m.exit, m.exit
		return c
	case m.paused:
		c.State, c.Ready, c.Reason = string(supervise.Paused), false, m.said("paused", "stalled")
		return c
	}
	if r, ok := m.running.way.(interface{ Trouble() error }); ok {
		if err := r.Trouble(); err != nil {
			c.Ready, c.Reason = false, err.Error()
		}
	}
	return c
}

// stats are the counters of a broker of the sandbox's own that runs, else nil.
func (m *mqtt) stats() *broker.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running != nil {
		if b, ok := m.running.way.(interface{ Stats() broker.Stats }); ok {
			stats := b.Stats()
			return &stats
		}
	}
	return nil
}
