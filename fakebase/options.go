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
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// Generation is a generation of the Koupleless runtime (protocol 1). The generations differ in their heartbeats and
// in their MQTT responses.
type Generation string

// The supported generations. The default is GenerationC.
const (
	// GenerationA is runtime 1.3.1. It sends heartbeats every 120 s, and responses on the topic base/biz.
	GenerationA Generation = "A"
	// GenerationB is runtime 1.3.2. It sends heartbeats every 10 s, with masterBizInfo.
	GenerationB Generation = "B"
	// GenerationC is runtime 1.3.3 and later, including 2.x. Its heartbeats contain baseMetadata.
	GenerationC Generation = "C"
	// GenerationD is runtime 1.4.3 and later. It behaves like GenerationC, and remembers the bizModelVersion of each
	// installed module (protocol 4.10).
	GenerationD Generation = "D"
)

// isOld reports whether the generation is A or B, whose messages differ most from those of later generations.
func (g Generation) isOld() bool { return g == GenerationA || g == GenerationB }

// Activation is the rule that determines the active version when a version starts while another version of the module
// is active (protocol 5.3).
type Activation = ark.Activation

// Values of the option Activation.
const (
	// ActivateDefault keeps the old version active. It is the zero value, and the default of a real base.
	ActivateDefault = ark.ActivateDefault
	// ActivateNewModule activates the new version, like the JVM option -Dactivate.new.module=true.
	ActivateNewModule = ark.ActivateNewModule
	// ActivateMulti keeps all versions active, like the property sofa.ark.activate.multi.biz.version.enable=true.
	ActivateMulti = ark.ActivateMulti
)

// Options configures a Base. The zero value of every field is valid. Without MQTT and HTTP, a base runs but has no
// tunnel. The JSON form omits functions, clients and TLS configurations.
type Options struct {
	// Identity is the identity of the base in topics and heartbeats. Default, as on real bases: a random UUID for
	// generations A and B, and IP for generation C.
	Identity string
	// Name, Version and ClusterName are the metadata that the base reports. Default: "base", "1.0.0", "default".
	Name, Version, ClusterName string
	// Labels are the Node labels that the base reports in its heartbeats (protocol 3.6). Generations A and B do not
	// report them. Default: none.
	Labels map[string]string
	// Env is the environment. In lower case, it is part of the first level of every topic. Default: "dev".
	Env string
	// IP and HostName are the IP address and the host name that heartbeats contain. Default: "198.18.0.1" and the
	// identity.
	IP, HostName string

	// MQTT configures the MQTT tunnel; nil = no MQTT tunnel.
	MQTT *MQTTOptions
	// HTTP configures the HTTP tunnel; nil = no HTTP tunnel.
	HTTP *HTTPOptions
	// Web configures the listener for module traffic and the actuator; nil = default settings.
	Web *WebOptions

	// Activation determines which version is active if several versions of a module are installed. Default:
	// ActivateDefault.
	Activation Activation
	// Generation is the generation of the Koupleless runtime. Default: GenerationC.
	Generation Generation
	// Faithful makes the base reproduce these defects of a real base. Default: the base does not have these defects.
	//   - After a failed publish, the base sends no more heartbeats.
	//   - It does not respond to invalid JSON over HTTP.
	//   - A conflict of an asynchronous command keeps the record and releases the lock of the running command.
	//   - A hanging download does not time out.
	//   - A module that fails to stop is removed, and the actuator is DOWN until the process ends.
	//   - The actuator has the component names and the rules of the runtime's code instead of the documentation.
	//   - Responses have no errorCode.
	//   - If the first connection to the broker fails, Start returns an error.
	Faithful bool
	// WithAllBizReadiness makes the health and readiness of the base depend on the modules that commands install, like
	// the property koupleless.healthcheck.base.readiness.withAllBizReadiness.
	WithAllBizReadiness bool
	// SilenceBeforeUninstall is the time that the base waits before it uninstalls a module, like the property
	// com.alipay.sofa.koupleless.runtime.operation.silenceSecondsBeforeUninstall. With WithAllBizReadiness, the
	// readiness is REFUSING_TRAFFIC during this time. Default: 0.
	SilenceBeforeUninstall time.Duration
	// Actuator configures the Spring Boot endpoints of the base.
	Actuator ActuatorOptions
	// AutoUninstallWhenFailed removes a module if it fails to start. Default: true.
	AutoUninstallWhenFailed *bool
	// RemoveWhenStopFailed removes a module if it fails to stop, which is the default of a real base. Without this
	// option, the module stays in the state BROKEN, as the Koupleless documentation describes for
	// Arklet.UninstallBizFailed. Default: the value of Faithful.
	RemoveWhenStopFailed *bool

	// Catalogue describes the modules behind the jar URLs. Bases can share a catalogue. Default: an empty catalogue.
	Catalogue *Catalogue
	// Metaspace configures the metaspace model.
	Metaspace Metaspace
	// StaticBiz contains the URLs of the modules that start together with the base (static merged deployment).
	StaticBiz []string
	// StartupTime is the startup duration of the base before its static modules start. Default: 0.
	StartupTime time.Duration

	// HeartbeatInterval is the time between heartbeats. Default: 12 s over HTTP; over MQTT, 120 s for generation A
	// and 10 s for the other generations.
	HeartbeatInterval time.Duration
	// InitialDelay is the time between the first connection and the first heartbeat. Default: 0.
	InitialDelay time.Duration
	// HeartbeatJitter is the maximum random time that is added to InitialDelay, so that bases do not send heartbeats
	// at the same time. Default: 0.
	HeartbeatJitter time.Duration

	// Speed is the time scale, 1 to 20. Heartbeat intervals, reconnect delays, the durations in the catalogue, and
	// the delays and durations of faults are divided by Speed. The duration of requests and the clock are not
	// affected. Default: 1.
	Speed int

	// Faults contains faults that are set before the base starts.
	Faults []fault.Fault
	// Seed is the random seed for delays and faults. Default: derived from Identity, or random if Identity is empty.
	Seed uint64
	// Logger receives the log messages of the base. Default: no logs.
	Logger *slog.Logger `json:"-"`
}

// ActuatorOptions configures the Spring Boot endpoints of a base.
type ActuatorOptions struct {
	// Expose lists the exposed endpoints, like management.endpoints.web.exposure.include: health and info. Default:
	// both.
	Expose []string
	// Show selects the visible parts of the response of /actuator/health, like
	// management.endpoint.health.show-components and show-details. Default: ShowDetails.
	Show HealthDetail
}

// exposes reports whether an actuator path belongs to an exposed endpoint.
func (o *Options) exposes(path string) bool {
	endpoint, _, _ := strings.Cut(path, "/")
	return len(o.Actuator.Expose) == 0 || slices.Contains(o.Actuator.Expose, endpoint)
}

// HealthDetail selects the visible parts of the response of the health endpoint.
type HealthDetail string

// The values of HealthDetail.
const (
	// ShowStatus shows the status of the base only, which is the default of Spring Boot.
	ShowStatus HealthDetail = "status"
	// ShowComponents also shows the components of the base with their status.
	ShowComponents HealthDetail = "components"
	// ShowDetails also shows the details of the components, which contain the modules.
	ShowDetails HealthDetail = "details"
)

// MQTTOptions contains the settings of the MQTT tunnel (protocol 3.1).
type MQTTOptions struct {
	// Broker is the URL of the broker: tcp://host:port or ssl://host:port. Required unless Dial is set.
	Broker string
	// Username and Password are the credentials for the broker. They are sent if they are not empty.
	Username, Password string
	// ClientPrefix is the prefix of the MQTT client ID, which has the form prefix@@@identity. Default: "koupleless".
	ClientPrefix string
	// TLS is the TLS configuration for ssl:// brokers. Default: trust the CA certificates of the system.
	TLS *tls.Config `json:"-"`
	// Dial opens a connection to the broker. If the broker and the bases run in the same process, Dial can return
	// in-memory connections. Default: connect to Broker.
	Dial func(context.Context) (net.Conn, error) `json:"-"`
}

// HTTPOptions contains the settings of the HTTP tunnel (protocol 4).
type HTTPOptions struct {
	// Addr is the address (host:port) on which arklet listens. Default host: 127.0.0.1. Default port, as on real
	// bases: the first free port from 1238 to 1337. Port 0 selects any free port.
	Addr string
	// HeartbeatEndpoint is the URL of the controller that receives the heartbeats, http://host:port. Default: no
	// heartbeats.
	HeartbeatEndpoint string
	// Client is the HTTP client that sends the heartbeats. Default: a client with the timeouts of a real base, 30 s
	// for the connection and 10 s for the response.
	Client *http.Client `json:"-"`

	// listen replaces the listener of Addr in tests.
	listen func(context.Context) (net.Listener, error)
}

// WebOptions contains the settings of the listener for module traffic and the actuator.
type WebOptions struct {
	// Addr is the address of the listener, host:port. Default: 127.0.0.1 and any free port.
	Addr string
	// RequestDuration is the time that a module takes to process a request. A request can set another duration with
	// the query parameter duration, for example ?duration=200ms. Default: 0.
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
	case GenerationA, GenerationB, GenerationC, GenerationD:
	default:
		errs = append(errs, fmt.Errorf("option Generation %q: must be A, B, C or D", o.Generation))
	}
	switch o.Actuator.Show {
	case "":
		o.Actuator.Show = ShowDetails
	case ShowStatus, ShowComponents, ShowDetails:
	default:
		errs = append(errs,
			fmt.Errorf("option Actuator.Show %q: must be status, components or details", o.Actuator.Show))
	}
	for _, endpoint := range o.Actuator.Expose {
		if endpoint != endpointHealth && endpoint != endpointInfo {
			errs = append(errs, fmt.Errorf("option Actuator.Expose %q: must be health or info", endpoint))
		}
	}
	switch o.Activation {
	case ActivateDefault, ActivateNewModule, ActivateMulti:
	default:
		errs = append(errs, fmt.Errorf(
			"option Activation %d: must be ActivateDefault, ActivateNewModule or ActivateMulti", o.Activation))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"StartupTime", o.StartupTime}, {"SilenceBeforeUninstall", o.SilenceBeforeUninstall},
		{"HeartbeatInterval", o.HeartbeatInterval},
		{"InitialDelay", o.InitialDelay}, {"HeartbeatJitter", o.HeartbeatJitter},
		{"Web.RequestDuration", o.Web.RequestDuration},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("option %s %s: must not be negative", d.name, d.value))
		}
	}
	if o.Speed < 0 || o.Speed > maxSpeed {
		errs = append(errs, fmt.Errorf("option Speed %d: must be from 1 to %d", o.Speed, maxSpeed))
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

// target returns the address of the broker, and whether the broker URL requires TLS.
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
		return errors.New("must not contain '+', '#', '/' or NUL, because MQTT topics contain the value")
	}
	return nil
}

// maxSpeed is the maximum value of Options.Speed.
const maxSpeed = 20

// scaled returns a duration divided by the time scale.
func (o *Options) scaled(d time.Duration) time.Duration {
	return d / time.Duration(max(o.Speed, 1))
}

// isTrue returns the value of a boolean option that defaults to true.
func isTrue(b *bool) bool { return b == nil || *b }
