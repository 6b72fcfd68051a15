package fakebase

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// Generation is which line of the runtime a base speaks like (protocol 1).
// They differ in heartbeats and in what is answered on which topic; HTTP is
// the same in all of them.
type Generation string

// The generations. The empty value means GenerationC.
const (
	// GenerationA is runtime 1.3.1: heartbeats every 120 s, answers on base/biz.
	GenerationA Generation = "A"
	// GenerationB is runtime 1.3.2: heartbeats every 10 s with masterBizInfo.
	GenerationB Generation = "B"
	// GenerationC is runtime 1.3.3 and later, also 2.x: heartbeats with baseMetadata.
	GenerationC Generation = "C"
)

// Activation is the rule for a version that starts while another version of
// the same name is active (protocol 5.3).
type Activation = ark.Activation

// The three activation rules.
const (
	// ActivateDefault keeps the old version active: what a real base does
	// without further flags. The zero value.
	ActivateDefault = ark.ActivateDefault
	// ActivateNewModule is -Dactivate.new.module=true: the new version takes over.
	ActivateNewModule = ark.ActivateNewModule
	// ActivateMulti is sofa.ark.activate.multi.biz.version.enable=true: all are active.
	ActivateMulti = ark.ActivateMulti
)

// Options say what base to simulate. The zero value of every field is usable;
// without MQTT and HTTP the base runs but nothing can reach it. Their JSON form
// leaves out what belongs to this process: functions, clients, and TLS.
type Options struct {
	// Identity names the base in topics and heartbeats. Empty = a random UUID
	// for generations A and B, the IP for generation C, as the real ones do.
	Identity string
	// Name, Version and ClusterName are the metadata of the base.
	// Empty = "base", "1.0.0", "default".
	Name, Version, ClusterName string
	// Env is the first part of every topic, lower-cased. Empty = "dev".
	Env string
	// IP and HostName are what heartbeats say; nothing ever dials them.
	// Empty = "198.18.0.1" and the identity.
	IP, HostName string

	// MQTT is the MQTT tunnel; nil = none.
	MQTT *MQTTOptions
	// HTTP is the HTTP tunnel; nil = none.
	HTTP *HTTPOptions
	// Web is the listener for module traffic and actuator; nil = all defaults.
	Web *WebOptions

	// Activation is the rule between versions of one module; zero = ActivateDefault.
	Activation Activation
	// Generation is the line of the runtime; empty = GenerationC.
	Generation Generation
	// Faithful keeps the flaws of the real base: heartbeats end for ever after
	// a failed publish, bad JSON over HTTP is never answered, an asynchronous
	// conflict keeps its record and loses the lock, a hanging download never ends,
	// a module whose stop failed is gone, the actuator has the names and the arithmetic
	// of the runtime's code, and is DOWN for ever after a module's stop failed, no
	// errorCode is sent, and a first connection that fails ends Start.
	// False = all of that is put right.
	Faithful bool
	// WithAllBizReadiness lets hot deployments count for the health of the base,
	// like koupleless.healthcheck.base.readiness.withAllBizReadiness.
	WithAllBizReadiness bool
	// AutoUninstallWhenFailed removes a module whose start failed; nil = true.
	AutoUninstallWhenFailed *bool
	// RemoveWhenStopFailed removes a module whose stop failed, as a real base does unless it is
	// told otherwise. False = the module stays, BROKEN: so the documents have
	// Arklet.UninstallBizFailed. Nil = what Faithful says.
	RemoveWhenStopFailed *bool

	// Catalogue says what is behind the URLs of modules; nil = an empty one.
	// One catalogue may serve many bases.
	Catalogue *Catalogue
	// Metaspace is the model of the metaspace; the zero value has defaults.
	Metaspace Metaspace
	// StaticBiz are URLs of modules that start with the base (static merged deployment).
	StaticBiz []string
	// StartupTime is how long the base starts before its modules do; zero = none.
	StartupTime time.Duration

	// HeartbeatInterval is the pause between heartbeats; zero = what the
	// generation and the tunnel do: 10 s, 120 s for A, 12 s over HTTP.
	HeartbeatInterval time.Duration
	// InitialDelay is the wait before the first heartbeat after connecting; zero = none.
	InitialDelay time.Duration
	// HeartbeatJitter adds a random share of it to InitialDelay, so that many
	// bases do not beat at the same instant; zero = none.
	HeartbeatJitter time.Duration

	// Speed divides every period of the base: heartbeats, pauses before it connects again, the times of
	// its catalogue, delays and lengths of faults; 1 to 20, zero = 1. What a module works on a request,
	// and the clock, do not change.
	Speed int

	// Faults are there from the start; more come and go by Inject and Clear.
	Faults []fault.Fault
	// Seed makes random delays and faults repeatable; zero = derived from Identity, or
	// random if that is empty.
	Seed uint64
	// Logger takes what happens; nil = nothing is logged.
	Logger *slog.Logger `json:"-"`
}

// MQTTOptions are the settings of the MQTT tunnel (protocol 3.1).
type MQTTOptions struct {
	// Broker is tcp://host:port or ssl://host:port. Required unless Dial is set.
	Broker string
	// Username and Password are sent when not empty.
	Username, Password string
	// ClientPrefix begins the client id, prefix@@@identity. Empty = "koupleless".
	ClientPrefix string
	// TLS is used for ssl brokers; nil = the system's roots.
	TLS *tls.Config `json:"-"`
	// Dial opens a connection to the broker; nil = dial Broker. A process that
	// holds broker and bases passes in-memory connections.
	Dial func(context.Context) (net.Conn, error) `json:"-"`
}

// HTTPOptions are the settings of the HTTP tunnel (protocol 4).
type HTTPOptions struct {
	// Addr is where arklet listens, host:port. Empty = 127.0.0.1 and the first
	// free port of 1238 to 1337, as a real base; so is an empty port after a
	// host. Port 0 = any free port.
	Addr string
	// HeartbeatEndpoint is the controller's http://host:port; empty = no heartbeats.
	HeartbeatEndpoint string
	// Client sends the heartbeats; nil = one with the time limits of the real
	// base: 30 s to connect, 10 s for the answer.
	Client *http.Client `json:"-"`

	// listen replaces Addr in tests.
	listen func(context.Context) (net.Listener, error)
}

// WebOptions are the settings of the listener for module traffic and actuator.
type WebOptions struct {
	// Addr is where it listens, host:port. Empty = 127.0.0.1 and any free port.
	Addr string
	// RequestDuration is how long a module works on a request; zero = no time.
	// A request may ask for another with the query parameter duration, such as
	// ?duration=200ms.
	RequestDuration time.Duration
}

func (o Options) normalise() (Options, error) {
	var errs []error
	o.Name = cmp.Or(o.Name, "base")
	o.Version = cmp.Or(o.Version, "1.0.0")
	o.ClusterName = cmp.Or(o.ClusterName, "default")
	o.Env = cmp.Or(o.Env, "dev")
	o.IP = cmp.Or(o.IP, "198.18.0.1")
	o.Generation = cmp.Or(o.Generation, GenerationC)
	o.Web = cmp.Or(o.Web, &WebOptions{})
	o.Env = strings.ToLower(o.Env)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Catalogue = cmp.Or(o.Catalogue, &Catalogue{})
	o.RemoveWhenStopFailed = cmp.Or(o.RemoveWhenStopFailed, &o.Faithful)
	o.Metaspace = o.Metaspace.normalise()

	for _, f := range []struct{ name, value string }{{"Identity", o.Identity}, {"Env", o.Env}} {
		if err := validTopicLevel(f.value); err != nil {
			errs = append(errs, fmt.Errorf("option %s %q: %w", f.name, f.value, err))
		}
	}
	switch o.Generation {
	case GenerationA, GenerationB, GenerationC:
	default:
		errs = append(errs, fmt.Errorf("option Generation %q: must be A, B or C", o.Generation))
	}
	switch o.Activation {
	case ActivateDefault, ActivateNewModule, ActivateMulti:
	default:
		errs = append(errs, fmt.Errorf("option Activation %d: unknown", o.Activation))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"StartupTime", o.StartupTime}, {"HeartbeatInterval", o.HeartbeatInterval},
		{"InitialDelay", o.InitialDelay}, {"HeartbeatJitter", o.HeartbeatJitter},
		{"Web.RequestDuration", o.Web.RequestDuration},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("option %s %s: must not be negative", d.name, d.value))
		}
	}
	if o.Speed < 0 || o.Speed > fastest {
		errs = append(errs, fmt.Errorf("option Speed %d: must be 1 to %d", o.Speed, fastest))
	}
	errs = append(errs, o.Metaspace.validate(), o.MQTT.validate(), o.HTTP.validate())
	for i, f := range o.Faults {
		if err := f.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("option Faults[%d]: %w", i, err))
		}
	}
	return o, errors.Join(errs...)
}

func (m *MQTTOptions) validate() error {
	switch {
	case m == nil || m.Dial != nil:
		return nil
	case m.Broker == "":
		return errors.New("option MQTT.Broker: give the broker as tcp://host:port or ssl://host:port")
	}
	_, _, err := m.target()
	return err
}

// target splits the broker's URL into address and whether it wants TLS.
func (m *MQTTOptions) target() (addr string, secure bool, err error) {
	u, err := url.Parse(m.Broker)
	if err != nil || u.Host == "" || u.Port() == "" {
		return "", false, fmt.Errorf("option MQTT.Broker %q: must be tcp://host:port or ssl://host:port", m.Broker)
	}
	switch u.Scheme {
	case "tcp", "mqtt":
		return u.Host, false, nil
	case "ssl", "tls", "mqtts":
		return u.Host, true, nil
	default:
		return "", false, fmt.Errorf("option MQTT.Broker %q: unknown scheme, use tcp or ssl", m.Broker)
	}
}

func (h *HTTPOptions) validate() error {
	if h == nil || h.HeartbeatEndpoint == "" {
		return nil
	}
	u, err := url.Parse(h.HeartbeatEndpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("option HTTP.HeartbeatEndpoint %q: must be http://host:port", h.HeartbeatEndpoint)
	}
	return nil
}

func validTopicLevel(s string) error {
	if strings.ContainsAny(s, "+#/\x00") {
		return errors.New("must not contain '+', '#', '/' or NUL, it is a part of MQTT topics")
	}
	return nil
}

// fastest is the highest Options.Speed.
const fastest = 20

// of is how long a period takes at the base's speed.
func (o *Options) of(d time.Duration) time.Duration {
	return d / time.Duration(max(o.Speed, 1))
}

// isTrue reads an optional switch that is on unless turned off.
func isTrue(b *bool) bool { return b == nil || *b }
