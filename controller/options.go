package controller

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
	"github.com/koupleless/koupsandbox/controller/internal/vpod"
)

// Options configure a Controller. The names in brackets are the environment variables of Module
// Controller V2 document 5.4, which cmd/module-controller reads.
type Options struct {
	// Config reaches the Kubernetes API. Required.
	Config *rest.Config
	// ClientID is unique among the controllers of one environment [CLIENT_ID]. Required.
	ClientID string
	// Env keeps environments apart: a label and a taint of every Node, and part of every topic
	// [ENV]. A lower-case DNS label; empty means "dev".
	Env string
	// MQTT is the MQTT tunnel [ENABLE_MQTT_TUNNEL]; nil leaves it out.
	MQTT *MQTTOptions
	// HTTP is the HTTP tunnel [ENABLE_HTTP_TUNNEL]; nil leaves it out.
	HTTP *HTTPOptions
	// BaseNetworks are CIDRs in which a base may name any address [BASE_NETWORKS]. A base over HTTP can always
	// report the address that its heartbeats come from, unless that is loopback or link-local. If BaseNetworks
	// is set, a base over MQTT must report an address in these networks.
	BaseNetworks string
	// MaxBases is how many bases are known at most [MAX_BASES]; 0 means 20,000.
	MaxBases int
	// MaxBasesPerAddress is the maximum number of bases that send heartbeats from one address over HTTP
	// [MAX_BASES_PER_ADDRESS]; 0 means 1,000. Bases with a client certificate are not limited.
	MaxBasesPerAddress int
	// Cluster says that several controllers share the bases [IS_CLUSTER].
	Cluster bool
	// WorkloadMaxLevel is the number of workload levels in a cluster [WORKLOAD_MAX_LEVEL]; 0 means
	// 3.
	WorkloadMaxLevel int
	// VNodeWorkers is how many modules one base installs or uninstalls at once [VNODE_WORKER_NUM];
	// 0 means 8.
	VNodeWorkers int

	// Deployments sets the replicas of peer Deployments and answers bases that ask for their
	// baseline [ENABLE_MODULE_DEPLOYMENT_CONTROLLER].
	Deployments bool
	// ModuleView keeps a Module for each container of a module Pod, for `kubectl get module`
	// [ENABLE_MODULE_VIEW].
	ModuleView bool
	// Kubelet serves logs and exec of module Pods [KUBELET_PROXY_ENABLED]; nil leaves it out.
	Kubelet *KubeletOptions
	// ReportHooks are web hooks that are told of failures [REPORT_HOOKS]. The fragment of an address is
	// the secret that signs messages to it.
	ReportHooks []*url.URL
	// FailedPods says which Pods turn Failed when a newer version of their module serves on their
	// base: "unowned" (those without a controller), "never" or "always" [FAILED_PODS]; empty means
	// unowned.
	FailedPods string
	// KeepSameVersion never replaces a module by another image of the same version, which takes a
	// gap [KEEP_SAME_VERSION].
	KeepSameVersion bool
	// LeavePodTolerations leaves the tolerations of module Pods as they are [LEAVE_POD_TOLERATIONS].
	// Otherwise Pods without one for any environment get that for Env, as the documents' samples
	// need, and the limit that admission sets for unreachable Nodes is taken off.
	LeavePodTolerations bool

	// LeaseDuration is how long this controller may be silent before another one takes its bases;
	// whole seconds, 0 means 15 s [LEASE_DURATION].
	LeaseDuration time.Duration
	// NodeLease is for how long the Lease of a base's Node is good, which is renewed at half of that; whole seconds, 0
	// means 40 s [NODE_LEASE_DURATION]. It must be less than kube-controller-manager's --node-monitor-grace-period.
	NodeLease time.Duration
	// UnreachableAfter and DeadAfter are the silences after which a base's Node turns Unknown and
	// goes; 0 means 25 s and 60 s.
	UnreachableAfter, DeadAfter time.Duration
	// ReconnectGrace is for how long after the tunnel to the broker is up again the silence of a base
	// does not count; 0 means 128 s, the longest reconnect pause of a real base, negative none
	// [RECONNECT_GRACE].
	ReconnectGrace time.Duration
	// MassSilence says when the silence of many bases is taken for a fault of the way to them.
	MassSilence MassSilence
	// DeletionsPercent is how many percent of the bases may be given up for their silence in a
	// minute, one at least; 0 means 10 [BASE_DELETIONS_PERCENT].
	DeletionsPercent int
	// HealthInterval and ListInterval are how often a base is asked for its health and its modules;
	// 0 means 10 s and 15 s.
	HealthInterval, ListInterval time.Duration
	// InstallTimeout and UninstallTimeout are how long a base may take; 0 means 5 min and 1 min.
	InstallTimeout, UninstallTimeout time.Duration
	// InstallAttempts is how often a module is installed in vain; 0 means 6.
	InstallAttempts int
	// Drain is how long the module of a deleted Pod that was Ready stays; 0 means 2 s, negative
	// none.
	Drain time.Duration

	// TimeScale divides every period of the controller, those above and those that have no setting;
	// 1 to 20, 0 means 1 [TIME_SCALE]. It is for tests of long outages, with bases that live as fast.
	// A Lease holds 4 s at least.
	TimeScale int

	// MetricsAddr is the address of /metrics. HealthAddr is the address of /healthz, /readyz and /tunnelz. An empty
	// address disables the listener. Profiling adds /debug/pprof to the metrics.
	MetricsAddr, HealthAddr string
	Profiling               bool
	// Logger is where the controller logs; nil discards.
	Logger *slog.Logger
}

// MassSilence says when the silence of many bases of one tunnel is taken for a fault of the way to
// them: none of them turns Not Ready or is removed then.
type MassSilence struct {
	// Percent of all bases, silent at once; 0 means 50, negative turns this off
	// [MASS_SILENCE_PERCENT].
	Percent int
	// AtLeast is how many bases there must be; 0 means 3 [MASS_SILENCE_MIN_BASES].
	AtLeast int
	// Window is within which time they fell silent; 0 means 1 min [MASS_SILENCE_WINDOW].
	Window time.Duration
	// AtMost is for how long that is believed; 0 means 30 min [MASS_SILENCE_AT_MOST].
	AtMost time.Duration
}

// MQTTOptions configure the MQTT tunnel.
type MQTTOptions struct {
	// Broker is host, host:port or a URL with the scheme tcp, mqtt, ssl, tls or mqtts
	// [MQTT_BROKER]. Required.
	Broker string
	// Port is used where Broker names none [MQTT_PORT]; 0 means 1883, or 8883 with TLS.
	Port int
	// Username and Password are the broker's login [MQTT_USERNAME, MQTT_PASSWORD].
	Username, Password string
	// ClientPrefix begins the MQTT client id [MQTT_CLIENT_PREFIX]; empty means "koupleless".
	ClientPrefix string
	// KeepRetained leaves the commands and baselines of Env alone that the broker has retained
	// [KEEP_RETAINED_COMMANDS]; otherwise they are removed once, at the start: an existing controller
	// leaves them, and every base that connects would run them.
	KeepRetained bool
	// TLS enables TLS [MQTT_CA_PATH, MQTT_CLIENT_CRT_PATH, MQTT_CLIENT_KEY_PATH]. It returns the configuration
	// for the next connection, so that certificates can be renewed.
	TLS func() *tls.Config
}

// HTTPOptions configure the HTTP tunnel.
type HTTPOptions struct {
	// Addr is where bases send their heartbeats [HTTP_TUNNEL_LISTEN_PORT]; empty means ":7777".
	Addr string
	// TLS serves that address over TLS; nil is plain HTTP, which is what a base of today speaks. With
	// ClientAuth the identity of a base must be the name of its certificate [HTTP_TUNNEL_TLS_CERT,
	// HTTP_TUNNEL_TLS_KEY, HTTP_TUNNEL_CLIENT_CA].
	TLS *tls.Config
	// Token is what a base must send, as "Authorization: Bearer TOKEN" or as the first part of the
	// path [HTTP_TUNNEL_TOKEN]; empty asks for none.
	Token string
	// Proxy is the http URL of an HTTP proxy that connects to bases by CONNECT, if the controller cannot
	// reach them directly [HTTP_TUNNEL_PROXY]. Probes of modules use it too, over both tunnels.
	// Default: nil, no proxy.
	Proxy *url.URL
}

// KubeletOptions configure the kubelet API, which the API server calls.
type KubeletOptions struct {
	// Host is where to listen and what Nodes publish as their InternalDNS address: the API server
	// must reach it, and must not prefer InternalIP (--kubelet-preferred-address-types; by its default
	// it does not, kubeadm's does), which is the base's. Required.
	Host string
	// Port is where to listen [KUBELET_PROXY_PORT]; 0 takes a free one.
	Port int
	// CertFile and KeyFile are the serving certificate; empty makes a self-signed one.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities whose certificates may call. Required.
	ClientCAFile string
}

// complete fills in defaults and reports every problem at once.
func (o *Options) complete() error {
	var errs []error
	if o.Config == nil {
		errs = append(errs, errors.New("no Kubernetes API is configured"))
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("CLIENT_ID is empty"))
	}
	switch {
	case o.MQTT == nil && o.HTTP == nil:
		errs = append(errs, errors.New("no tunnel is enabled: set ENABLE_MQTT_TUNNEL or ENABLE_HTTP_TUNNEL to true"))
	case o.MQTT != nil && o.MQTT.Broker == "":
		errs = append(errs, errors.New("MQTT_BROKER is empty: name the broker's host, or its URL"))
	}
	if o.Env == "" {
		o.Env = "dev"
	}
	if len(validation.IsDNS1123Label(o.Env)) > 0 { // a part of topics, labels and names
		errs = append(errs, fmt.Errorf("ENV is %.80q: use at most 63 lower-case letters, digits and -, with a letter or digit at both ends", o.Env))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch podstatus.FailedRule(o.FailedPods) {
	case "", podstatus.FailedUnowned, podstatus.FailedNever, podstatus.FailedAlways:
	default:
		errs = append(errs, fmt.Errorf("FAILED_PODS is %q: use unowned, never or always", o.FailedPods))
	}
	for name, d := range map[string]time.Duration{
		"UnreachableAfter": o.UnreachableAfter, "DeadAfter": o.DeadAfter, "HealthInterval": o.HealthInterval,
		"MassSilence.Window": o.MassSilence.Window, "MassSilence.AtMost": o.MassSilence.AtMost,
		"ListInterval": o.ListInterval, "LeaseDuration": o.LeaseDuration, "NodeLease": o.NodeLease, "InstallTimeout": o.InstallTimeout, "UninstallTimeout": o.UninstallTimeout,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %s", name, d))
		}
	}
	for name, n := range map[string]int{"BASE_DELETIONS_PERCENT": o.DeletionsPercent, "MASS_SILENCE_PERCENT": o.MassSilence.Percent} {
		if n > 100 {
			errs = append(errs, fmt.Errorf("%s is %d: it must be at most 100", name, n))
		}
	}
	for name, n := range map[string]int{"BASE_DELETIONS_PERCENT": o.DeletionsPercent, "MASS_SILENCE_MIN_BASES": o.MassSilence.AtLeast} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", name, n))
		}
	}
	if o.UnreachableAfter > 0 && o.DeadAfter > 0 && o.DeadAfter <= o.UnreachableAfter {
		errs = append(errs, fmt.Errorf("a base must be unreachable (%s) before it is gone (%s)", o.UnreachableAfter, o.DeadAfter))
	}
	for name, d := range map[string]time.Duration{"LEASE_DURATION": o.LeaseDuration, "NODE_LEASE_DURATION": o.NodeLease} {
		if d > 0 && d < api.MinControllerLease || d > vnode.MaxLease {
			errs = append(errs, fmt.Errorf("%s is %s: it must be %s to %s", name, d, api.MinControllerLease, vnode.MaxLease))
		}
	}
	if o.TimeScale < 0 || o.TimeScale > pace.Fastest {
		errs = append(errs, fmt.Errorf("TIME_SCALE is %d: it must be 1 to %d", o.TimeScale, pace.Fastest))
	}
	for name, n := range map[string]int{"MAX_BASES": o.MaxBases, "MAX_BASES_PER_ADDRESS": o.MaxBasesPerAddress} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", name, n))
		}
	}
	if _, err := tunnel.ParseNetworks(o.BaseNetworks); err != nil {
		errs = append(errs, fmt.Errorf("BASE_NETWORKS: %w", err))
	}
	if o.HTTP != nil && strings.Contains(o.HTTP.Token, "/") {
		errs = append(errs, errors.New("HTTP_TUNNEL_TOKEN has a /: a base may have to send it as one part of a path"))
	}
	o.periods()
	return errors.Join(errs...)
}

// periods fills in the defaults of all periods and divides them by TimeScale.
func (o *Options) periods() {
	for p, d := range map[*time.Duration]time.Duration{
		&o.LeaseDuration: vnode.DefaultMembership, &o.NodeLease: vnode.DefaultNodeLease, &o.UnreachableAfter: api.UnreachableAfter, &o.DeadAfter: api.DeadAfter,
		&o.ReconnectGrace: api.ReconnectGrace, &o.HealthInterval: api.HealthInterval, &o.ListInterval: api.ListInterval,
		&o.MassSilence.Window: api.MassWindow, &o.MassSilence.AtMost: api.MassAtMost,
		&o.InstallTimeout: vpod.DefaultInstallTimeout, &o.UninstallTimeout: vpod.DefaultUninstallTimeout, &o.Drain: vpod.DefaultDrain,
	} {
		switch *p = cmp.Or(*p, d); p {
		case &o.LeaseDuration:
		case &o.NodeLease:
			*p = o.speed().Seconds(*p)
		default:
			*p = o.speed().Of(*p)
		}
	}
	if o.TimeScale > 1 {
		o.LeaseDuration = max(o.speed().Seconds(o.LeaseDuration), api.MinControllerLease)
	}
}

func (o *Options) speed() pace.Speed { return pace.Speed(o.TimeScale) }

// url is the broker as the MQTT library wants it.
func (m MQTTOptions) url() (string, error) {
	scheme, host, found := strings.Cut(m.Broker, "://")
	if !found {
		scheme, host = "", m.Broker
	}
	secure := m.TLS != nil
	switch scheme {
	case "", "tcp", "mqtt":
	case "ssl", "tls", "mqtts":
		secure = true
	default:
		return "", fmt.Errorf("MQTT_BROKER has the scheme %q: use tcp, mqtt, ssl, tls or mqtts", scheme)
	}
	port := m.Port
	if port == 0 {
		port = 1883
		if secure {
			port = 8883
		}
	}
	if i := strings.LastIndex(host, ":"); i < 0 || strings.HasSuffix(host, "]") {
		host = fmt.Sprintf("%s:%d", host, port)
	}
	if secure {
		return "ssl://" + host, nil
	}
	return "tcp://" + host, nil
}
