package broker

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Component is the name of the broker component in the output of status.
const Component = "broker"

// Login contains the credentials of a broker user.
type Login struct{ User, Password string }

// LinkOptions are the options of a Link.
type LinkOptions struct {
	// Host and Port are the listen address. If Port is 0, Open selects a free port, which then does not change.
	// Required.
	Host string
	Port int
	// Env is the environment in the MQTT topics. Required.
	Env string
	// ClientPrefix is the prefix of MQTT client IDs. It is written to InfoFile for external bases. Required.
	ClientPrefix string
	// Serving issues a server certificate for hosts, and returns the path of the CA certificate. nil means that the
	// link does not use TLS.
	Serving func(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// To is the external broker to which the link relays connections. nil = the link runs an embedded broker.
	To *External
	// Direct means that controllers and bases connect to the external broker directly, and only clients on this
	// machine use the link. Act then refuses every action. Default: all clients use the link.
	Direct bool
	// View applies faults to the connections. The same View is used after a restart of the broker. Default: no
	// faults.
	View *mqttfault.Injector
	// InfoFile is the path of the file to which the broker address and credentials are written for external bases.
	// Required.
	InfoFile string
	// Logger is the logger of the broker or the relay. Required.
	Logger *slog.Logger
	// Changed is called with each new state of the link. It must not block or call methods of the Link. Required.
	Changed func(state supervise.State, why string)
}

// server is a Broker or a Relay.
type server interface {
	Start(ctx context.Context) error
	Addr() string
	Dial(ctx context.Context) (net.Conn, error)
	Pause()
	Resume()
	// Err returns the reason why the broker is unreachable, or nil.
	Err() error
	// Stats returns the counters, or nil if the counters are not available.
	Stats() *Stats
}

var (
	_ server = (*Broker)(nil)
	_ server = (*Relay)(nil)
)

// Link is the embedded broker, or a relay to an external broker. Scenarios stop and start a Link like a process. This
// does not affect the external broker. The address and the logins never change. All methods may be called
// concurrently.
type Link struct {
	o                LinkOptions
	controller, base Login
	caFile           string
	info             map[string]any
	open             func(addr string) (server, error)

	mu        sync.Mutex
	addr      string
	running   *run
	paused    bool
	startedAt time.Time
	exit      string
}

var _ supervise.ComponentSet = (*Link)(nil)

// run is one run of the broker or the relay, from start to stop.
type run struct {
	server server
	cancel context.CancelFunc
	done   chan struct{}
	err    error // error with which the run ended; valid after done is closed
}

// NewLink returns a stopped link. It opens no port. With TLS, it writes the CA certificate to a file.
func NewLink(o LinkOptions) (*Link, error) {
	l := &Link{o: o, addr: net.JoinHostPort(o.Host, strconv.Itoa(o.Port))}
	var serving *tls.Config
	if o.Serving != nil {
		certPEM, keyPEM, caFile, err := o.Serving(o.Host, "localhost")
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("parsing the broker's certificate: %w", err)
		}
		l.caFile = caFile
		serving = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	l.info = map[string]any{"tls": serving != nil, "caFile": l.caFile, "clientPrefix": o.ClientPrefix, "env": o.Env}
	if e := o.To; e != nil { // its password is not copied to InfoFile
		l.controller = Login{e.Username, e.Password}
		l.base = l.controller
		l.open = func(addr string) (server, error) {
			return NewRelay(e, ListenOptions{Addr: addr, TLS: serving, View: o.View, Logger: o.Logger})
		}
		l.info["url"], l.info["username"] = e.URL, e.Username
		return l, nil
	}
	passwords := NewPasswords()
	l.controller, l.base = Login{ControllerUser, passwords.Controller}, Login{BaseUser, passwords.Base}
	l.open = func(addr string) (server, error) {
		return New(Options{ListenOptions: ListenOptions{Addr: addr, TLS: serving, View: o.View, Logger: o.Logger},
			Env: o.Env, Passwords: passwords})
	}
	l.info["passwords"] = passwords
	return l, nil
}

// Open starts the link for the first time, and writes InfoFile.
func (l *Link) Open(ctx context.Context) error {
	if err := l.start(ctx); err != nil {
		if port := l.o.Port; port != 0 {
			err = fmt.Errorf("%w; set spec.broker.port to a port other than %d, or to 0 to use a free port", err, port)
		}
		return err
	}
	l.info["addr"] = l.Addr()
	text, err := json.MarshalIndent(l.info, "", "  ")
	if err == nil {
		err = state.WriteFile(l.o.InfoFile, text)
	}
	if err != nil {
		return fmt.Errorf("writing the broker's address: %w", err)
	}
	return nil
}

// Addr returns the host:port on which the link listens. The port is 0 before Open if LinkOptions.Port is 0.
func (l *Link) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// URL returns the URL of the external broker, or the empty string for an embedded broker.
func (l *Link) URL() string {
	if l.o.To == nil {
		return ""
	}
	return l.o.To.URL
}

// CAFile returns the path of the CA certificate, or the empty string without TLS.
func (l *Link) CAFile() string { return l.caFile }

// Controller returns the login of the module controllers.
func (l *Link) Controller() Login { return l.controller }

// Base returns the login of the bases.
func (l *Link) Base() Login { return l.base }

// start starts the broker or the relay unless it is running.
func (l *Link) start(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		return nil
	}
	s, err := l.open(l.addr)
	if err != nil {
		return err
	}
	l.addr = s.Addr() // the next run uses the same port
	// The broker ends with Close, not with the command that has started it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{server: s, cancel: cancel, done: make(chan struct{})}
	l.running, l.paused, l.startedAt, l.exit = r, false, time.Now(), ""
	l.o.Changed(supervise.Running, "")
	go func() {
		defer close(r.done)
		r.err = s.Start(life)
	}()
	return nil
}

// Close closes all connections and stops the broker or the relay. Close has no effect on a stopped link.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.running
	if r == nil {
		return nil
	}
	r.cancel()
	<-r.done
	l.running, l.exit = nil, l.reason("stopped", "cut")
	l.o.Changed(supervise.Exited, l.exit)
	return r.err
}

// pause pauses or resumes the broker or the relay. While it is paused, connections stay open but transfer no data.
func (l *Link) pause(paused bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.running == nil:
		return supervise.Refuse("%v", errDown)
	case l.paused == paused:
	case paused:
		l.running.server.Pause()
		l.o.Changed(supervise.Paused, "")
	default:
		l.running.server.Resume()
		l.o.Changed(supervise.Running, "")
	}
	l.paused = paused
	return nil
}

// Dial opens a connection to the link for a base in this process.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	r := l.running
	l.mu.Unlock()
	if r == nil {
		return nil, errDown
	}
	return r.server.Dial(ctx)
}

// reason returns own for an embedded broker. For a relay, it returns a text that contains relay and describes the
// connection to the external broker.
func (l *Link) reason(own, relay string) string {
	if l.o.To == nil {
		return own
	}
	return fmt.Sprintf("the connection to %s is %s; the broker itself is not affected", l.URL(), relay)
}

// Components implements supervise.ComponentSet.
func (l *Link) Components(context.Context) []supervise.Component {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := supervise.Component{Name: Component, State: supervise.Running, Ready: true, PID: os.Getpid(),
		StartedAt: l.startedAt}
	switch {
	case l.running == nil:
		c.State, c.Ready, c.PID, c.Reason, c.Exit = supervise.Exited, false, 0, l.exit, l.exit
	case l.paused:
		c.State, c.Ready, c.Reason = supervise.Paused, false, l.reason("paused", "stalled")
	default:
		if err := l.running.server.Err(); err != nil {
			c.Ready, c.Reason = false, err.Error()
		}
	}
	return []supervise.Component{c}
}

// ToStart implements supervise.ComponentSet.
func (l *Link) ToStart(context.Context) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		return nil
	}
	return []string{Component}
}

// Act implements supervise.ComponentSet.
func (l *Link) Act(ctx context.Context, name string, action supervise.Action) error {
	if name != Component {
		return fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	}
	if l.o.Direct {
		return supervise.Refuse(
			"cannot %[2]s %[1]s: controllers and bases run in the cluster and connect to %[3]s directly", name, action,
			l.URL())
	}
	switch action {
	case supervise.Pause:
		return l.pause(true)
	case supervise.Resume:
		return l.pause(false)
	case supervise.Kill, supervise.Stop:
		return l.Close()
	case supervise.Start:
		return l.start(ctx)
	default:
		return errors.Join(l.Close(), l.start(ctx))
	}
}

// Stats returns the counters of the embedded broker. It returns nil if the embedded broker is not running or the link
// is a relay.
func (l *Link) Stats() *Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		return nil
	}
	return l.running.server.Stats()
}
