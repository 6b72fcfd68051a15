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

// Component is the name of a Link in `status`.
const Component = "broker"

// Login is a user of the broker.
type Login struct{ User, Password string }

// LinkOptions of a Link.
type LinkOptions struct {
	// Host and Port to listen on; port 0 = any free one, which it keeps. Required.
	Host string
	Port int
	// Env is the environment in the topics. Required.
	Env string
	// ClientPrefix begins client ids; it is noted for bases from outside. Required.
	ClientPrefix string
	// Serving issues the certificate for hosts, and names the file of the authority to trust. nil =
	// plain TCP.
	Serving func(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// To is the broker of the user's that the link leads to. nil = a broker of the sandbox's own.
	To *External
	// Direct says that controllers and bases reach that one themselves, and only what is on this
	// machine comes this way: nothing is done to it as a component. Default: all come this way.
	Direct bool
	// View disturbs the connections, through all lives of the broker. Default: nothing does.
	View *mqttfault.View
	// Note is the file that tells bases from outside how to reach the broker. Required.
	InfoFile string
	// Logger for what the broker has to say. Required.
	Logger *slog.Logger
	// Changed is told of every new state. It must not block, nor call the Link. Required.
	Changed func(state supervise.State, why string)
}

// server is what a Link leads through.
type server interface {
	Start(ctx context.Context) error
	Addr() string
	Dial(ctx context.Context) (net.Conn, error)
	Pause()
	Resume()
	// Err says why the broker cannot be reached; nil if it can.
	Err() error
	// Stats are nil where they are not ours to read.
	Stats() *Stats
}

var (
	_ server = (*Broker)(nil)
	_ server = (*Relay)(nil)
)

// Link is the broker of the sandbox, or a relay to an external broker. Scenarios stop and start it like a process; this
// does not affect an external broker itself. Address and logins do not change. All methods may be called concurrently.
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

var _ supervise.Part = (*Link)(nil)

// run is one life of the broker, or of the relay to it.
type run struct {
	server server
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read after done
}

// NewLink makes a link that is down. It may write the file of an authority, and opens no port.
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
			return nil, fmt.Errorf("reading the broker's certificate: %w", err)
		}
		l.caFile = caFile
		serving = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	l.info = map[string]any{"tls": serving != nil, "caFile": l.caFile, "clientPrefix": o.ClientPrefix, "env": o.Env}
	if e := o.To; e != nil { // whose password stays where the user keeps it
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

// Open starts the link for the first time and notes in a file how to reach it.
func (l *Link) Open(ctx context.Context) error {
	if err := l.start(ctx); err != nil {
		if port := l.o.Port; port != 0 {
			err = fmt.Errorf("%w; choose another spec.broker.port than %d, or 0 for any free one", err, port)
		}
		return err
	}
	l.info["addr"] = l.Addr()
	text, err := json.MarshalIndent(l.info, "", "  ")
	if err == nil {
		err = state.WriteFile(l.o.InfoFile, text)
	}
	if err != nil {
		return fmt.Errorf("noting the broker's address: %w", err)
	}
	return nil
}

// Addr is the host:port where it listens; the port is known after Open.
func (l *Link) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// URL is that of the user's broker; empty with one of the sandbox's own.
func (l *Link) URL() string {
	if l.o.To == nil {
		return ""
	}
	return l.o.To.URL
}

// CAFile names the authority to trust; empty without TLS.
func (l *Link) CAFile() string { return l.caFile }

// Controller is the login of the module controllers.
func (l *Link) Controller() Login { return l.controller }

// Base is the login of the bases.
func (l *Link) Base() Login { return l.base }

// start starts the broker, or opens the relay to it; one that runs stays as it is.
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
	l.addr = s.Addr() // which it keeps from now on
	// The broker's life ends with Close, not with the command that asked for it.
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

// Close cuts all connections and ends the broker, or the relay to it; closing one that is down is
// fine.
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

// pause halts the broker, or lets it go on: connections stay and nothing passes.
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

// Dial connects a base of this process.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	r := l.running
	l.mu.Unlock()
	if r == nil {
		return nil, errDown
	}
	return r.server.Dial(ctx)
}

// said chooses the word for what was done to the broker, or to the relay.
func (l *Link) reason(own, relay string) string {
	if l.o.To == nil {
		return own
	}
	return fmt.Sprintf("the way to %s is %s; the broker itself is not touched", l.URL(), relay)
}

// Components implements supervise.Part.
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

// Down implements supervise.Part.
func (l *Link) Down(context.Context) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		return nil
	}
	return []string{Component}
}

// Act implements supervise.Part.
func (l *Link) Act(ctx context.Context, name string, action supervise.Action) error {
	if name != Component {
		return fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	}
	if l.o.Direct {
		return supervise.Refuse(
			"%s cannot be told to %s: controllers and bases are in the cluster and reach %s themselves", name, action,
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

// Stats are the counters of a broker of the sandbox's own that runs, else nil.
func (l *Link) Stats() *Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		return nil
	}
	return l.running.server.Stats()
}
