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

// Generation is a generation of the Koupleless runtime (protocol 1). Generations differ in their heartbeats, and in
// their responses over MQTT.
type Generation string

// The generations. The default is GenerationC.
const (
	// GenerationA is runtime 1.3.1: heartbeats every 120 s, and responses on base/biz.
	GenerationA Generation = "A"
	// GenerationB is runtime 1.3.2: heartbeats every 10 s with masterBizInfo.
	GenerationB Generation = "B"
	// GenerationC is runtime 1.3.3 and later, also 2.x: heartbeats with baseMetadata.
	GenerationC Generation = "C"
)

// Activation is the rule for a version that starts while another version of the module is active (protocol 5.3).
type Activation = ark.Activation

// The activation rules.
const (
	// ActivateDefault keeps the old version active. It is the default of a real base, and the zero value.
	ActivateDefault = ark.ActivateDefault
	// ActivateNewModule activates the new version, like -Dactivate.new.module=true.
	ActivateNewModule = ark.ActivateNewModule
	// ActivateMulti keeps all versions active, like sofa.ark.activate.multi.biz.version.enable=true.
	ActivateMulti = ark.ActivateMulti
)

// Options of a Base. The zero value of every field is usable. Without MQTT and HTTP, a base runs but has no tunnel. The
// JSON form omits functions, clients and TLS configurations.
type Options struct {
	// Identity of the base in topics and heartbeats. Default, as for real bases: a random UUID for the generations A
	// and B, the IP for generation C.
	Identity string
	// Name, Version and ClusterName are the metadata of the base. Default: "base", "1.0.0", "default".
	Name, Version, ClusterName string
	// Env is the environment, the first part of every topic in lower case. Default: "dev".
	Env string
	// IP and HostName are sent in heartbeats. Default: "198.18.0.1" and the identity.
	IP, HostName string

	// MQTT is the MQTT tunnel; nil = none.
	MQTT *MQTTOptions
	// HTTP is the HTTP tunnel; nil = none.
	HTTP *HTTPOptions
	// Web is the listener for module traffic and the actuator; nil = defaults.
	Web *WebOptions

	// Activation is the activation rule. Default: ActivateDefault.
	Activation Activation
	// Generation of the runtime. Default: GenerationC.
	Generation Generation
	// Faithful reproduces these defects of the real base. Default: the base does not have them.
	//   - After a failed publish, the base sends no more heartbeats.
	//   - It does not respond to invalid JSON over HTTP.
	//   - A conflict of an asynchronous command keeps the record and releases the lock of the running command.
	//   - A hanging download does not time out.
	//   - A module that fails to stop is removed, and the actuator is DOWN until the process ends.
	//   - The actuator has the component names and the rules of the runtime's code instead of the documentation.
	//   - Responses have no errorCode.
	//   - If the first connection to the broker fails, Start returns an error.
	Faithful bool
	// WithAllBizReadiness includes modules that a command has installed in the health of the base, like
	// koupleless.healthcheck.base.readiness.withAllBizReadiness.
	WithAllBizReadiness bool
	// AutoUninstallWhenFailed removes a module that fails to start. Default: true.
	AutoUninstallWhenFailed *bool
	// RemoveWhenStopFailed removes a module that fails to stop, which is the default of a real base. Otherwise, the
	// module stays in the state BROKEN, as the Koupleless documentation describes for Arklet.UninstallBizFailed.
	// Default: the value of Faithful.
	RemoveWhenStopFailed *bool

	// Catalogue describes the modules behind URLs. Bases can share a catalogue. Default: an empty catalogue.
	Catalogue *Catalogue
	// Metaspace is the model of the metaspace.
	Metaspace Metaspace
	// StaticBiz are URLs of modules that start together with the base (static merged deployment).
	StaticBiz []string
	// StartupTime is the duration of the startup before the static modules start. Default: 0.
	StartupTime time.Duration

	// HeartbeatInterval is the time between heartbeats. Default: 12 s over HTTP; over MQTT, 120 s for generation A and
	// 10 s for the others.
	HeartbeatInterval time.Duration
	// InitialDelay is the time from the first connect to the first heartbeat. Default: 0.
	InitialDelay time.Duration
	// HeartbeatJitter is the maximum random addition to InitialDelay, so that bases do not send heartbeats at the same
	// time. Default: 0.
	HeartbeatJitter time.Duration

	// Speed is the time scale, 1 to 20. Heartbeat intervals, reconnect delays, the times of the catalogue, and the
	// delays and durations of faults are divided by it. The duration of requests and the clock do not change. Default:
	// 1.
	Speed int

	// Faults are set before the base starts.
	Faults []fault.Fault
	// Seed is the random seed of delays and faults. Default: derived from Identity, or random if Identity is empty.
	Seed uint64
	// Logger of the base. Default: no logs.
	Logger *slog.Logger `json:"-"`
}

// MQTTOptions are the settings of the MQTT tunnel (protocol 3.1).
type MQTTOptions struct {
	// Broker is tcp://host:port or ssl://host:port. Required unless Dial is set.
	Broker string
	// Username and Password are sent when not empty.
	Username, Password string
	// ClientPrefix is the prefix of the client ID, prefix@@@identity. Default: "koupleless".
	ClientPrefix string
	// TLS is the configuration for ssl:// brokers. Default: the CA certificates of the system.
	TLS *tls.Config `json:"-"`
	// Dial opens a connection to the broker. A process with a broker and bases can return in-memory connections.
	// Default: connect to Broker.
	Dial func(context.Context) (net.Conn, error) `json:"-"`
}

// HTTPOptions are the settings of the HTTP tunnel (protocol 4).
type HTTPOptions struct {
	// Addr is the address on which arklet listens, host:port. Default of the host: 127.0.0.1. Default of the port, as
	// for real bases: the first free port of 1238 to 1337. Port 0 selects any free port.
	Addr string
	// HeartbeatEndpoint is the URL of the controller, http://host:port. Default: no heartbeats.
	HeartbeatEndpoint string
	// Client sends the heartbeats. Default: a client with the timeouts of the real base, 30 s for the connection and 10
	// s for the response.
	Client *http.Client `json:"-"`

	// listen replaces Addr in tests.
	listen func(context.Context) (net.Listener, error)
}

// WebOptions are the settings of the listener for module traffic and the actuator.
type WebOptions struct {
	// Addr is the address of the listener, host:port. Default: 127.0.0.1 and any free port.
	Addr string
	// RequestDuration is the duration of a request to a module. A request can set another duration with the query
	// parameter duration, such as ?duration=200ms. Default: 0.
	RequestDuration time.Duration
}

func (o Options) withDefaults() (Options, error) {
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
	o.Metaspace = o.Metaspace.withDefaults()

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
		errs = append(errs, fmt.Errorf("option Activation %d: unknown value", o.Activation))
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
	if o.Speed < 0 || o.Speed > maxSpeed {
		errs = append(errs, fmt.Errorf("option Speed %d: must be 1 to %d", o.Speed, maxSpeed))
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
		return errors.New("option MQTT.Broker is required; use tcp://host:port or ssl://host:port")
	}
	_, _, err := m.target()
	return err
}

// target returns the address of the broker, and reports whether its URL requires TLS.
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
		return "", false, fmt.Errorf("option MQTT.Broker %q: unknown scheme; use tcp or ssl", m.Broker)
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
		return errors.New("must not contain '+', '#', '/' or NUL, because it is a part of MQTT topics")
	}
	return nil
}

// maxSpeed is the maximum of Options.Speed.
const maxSpeed = 20

// scaled returns a duration divided by the time scale.
func (o *Options) scaled(d time.Duration) time.Duration {
	return d / time.Duration(max(o.Speed, 1))
}

// isTrue returns the value of an option whose default is true.
func isTrue(b *bool) bool { return b == nil || *b }
