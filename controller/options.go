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
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Options configure a Controller. A zero value means the default of the setting, whose environment variable is in
// brackets. The flags in cmd/module-controller check the range of each number and duration.
type Options struct {
	// Config reaches the Kubernetes API. Required.
	Config *rest.Config
	// ClientID is unique among the controllers of one environment [CLIENT_ID]. Required.
	ClientID string
	// Env is a label and a taint of every Node, and part of every topic [ENV]. It is a lower-case DNS label; default dev.
	Env string
	// MQTT is the MQTT tunnel [ENABLE_MQTT_TUNNEL], and HTTP the HTTP tunnel [ENABLE_HTTP_TUNNEL]; nil disables it.
	MQTT *MQTTOptions
	HTTP *HTTPOptions
	// BaseNetworks are CIDRs in which a base may report any address [BASE_NETWORKS]. Over HTTP, a base can also report
	// the address that its heartbeats come from, unless that is loopback or link-local.
	BaseNetworks string
	// MaxBases is the maximum number of bases [MAX_BASES]. MaxBasesPerAddress is the maximum number of those that send
	// heartbeats from one address over HTTP without a client certificate [MAX_BASES_PER_ADDRESS].
	MaxBases, MaxBasesPerAddress int
	// Cluster enables sharing the bases with other controllers [IS_CLUSTER].
	Cluster bool
	// WorkloadMaxLevel is the number of workload levels in a cluster [WORKLOAD_MAX_LEVEL].
	WorkloadMaxLevel int
	// VNodeWorkers is the number of modules that one base installs or uninstalls concurrently [VNODE_WORKER_NUM].
	VNodeWorkers int

	// Deployments sets the replicas of peer Deployments, and answers baseline queries
	// [ENABLE_MODULE_DEPLOYMENT_CONTROLLER].
	Deployments bool
	// ModuleView maintains a Module object for each container of a module Pod [ENABLE_MODULE_VIEW].
	ModuleView bool
	// Kubelet serves logs and exec of module Pods [KUBELET_PROXY_ENABLED]; nil disables it.
	Kubelet *KubeletOptions
	// ReportHooks are webhooks for failures [REPORT_HOOKS]. The fragment of a URL is the secret that signs the messages.
	ReportHooks []*url.URL
	// FailedPods selects the Pods that turn Failed when a newer version of their module serves on their base: unowned
	// (those without a controller), never or always [FAILED_PODS].
	FailedPods string
	// KeepSameVersion never replaces a module by another image of the same version [KEEP_SAME_VERSION].
	KeepSameVersion bool
	// LeavePodTolerations does not add tolerations to module Pods [LEAVE_POD_TOLERATIONS].
	LeavePodTolerations bool

	// LeaseDuration is how long the Lease of this controller is valid [LEASE_DURATION].
	LeaseDuration time.Duration
	// NodeLease is how long the Lease of a Node is valid [NODE_LEASE_DURATION]. It must be less than
	// kube-controller-manager's --node-monitor-grace-period.
	NodeLease time.Duration
	// UnreachableAfter and DeadAfter are how long a base may miss heartbeats before its Node is Not Ready, and before it
	// is deleted [BASE_UNREACHABLE_AFTER, BASE_DEAD_AFTER].
	UnreachableAfter, DeadAfter time.Duration
	// ReconnectGrace is how long missed heartbeats are ignored after the broker is reachable again; negative means not at
	// all [RECONNECT_GRACE].
	ReconnectGrace time.Duration
	// MassSilence configures the detection of mass outages [MASS_SILENCE_*].
	MassSilence base.MassOptions
	// DeletionsPercent is the maximum percentage of bases removed per minute [BASE_DELETIONS_PERCENT].
	DeletionsPercent int
	// HealthInterval and ListInterval are how often a base is asked for its health and its modules
	// [HEALTH_INTERVAL, LIST_INTERVAL].
	HealthInterval, ListInterval time.Duration
	// InstallTimeout and UninstallTimeout limit commands [INSTALL_TIMEOUT, UNINSTALL_TIMEOUT].
	InstallTimeout, UninstallTimeout time.Duration
	// InstallAttempts is the maximum number of failed installs of a module [INSTALL_ATTEMPTS].
	InstallAttempts int
	// Drain is how long the module of a deleted Pod that was Ready stays; negative means not at all [MODULE_DRAIN].
	Drain time.Duration

	// TimeScale divides every period of the controller, for tests of long outages with bases of the same time scale
	// [TIME_SCALE].
	TimeScale int

	// MetricsAddr is the address of /metrics [METRICS_ADDR], and HealthAddr that of /healthz, /readyz and /tunnelz
	// [HEALTH_ADDR]; empty disables it. Profiling adds /debug/pprof to the metrics [PROFILING].
	MetricsAddr, HealthAddr string
	Profiling               bool
	// Logger discards if it is nil.
	Logger *slog.Logger
}

// MQTTOptions configure the MQTT tunnel.
type MQTTOptions struct {
	// Broker is host, host:port or a URL with the scheme tcp, mqtt, ssl, tls or mqtts [MQTT_BROKER]. Required.
	Broker string
	// Port is used if Broker has none [MQTT_PORT]; default 1883, or 8883 with TLS.
	Port int
	// Username and Password are sent to the broker [MQTT_USERNAME, MQTT_PASSWORD].
	Username, Password string
	// ClientPrefix begins the MQTT client ID [MQTT_CLIENT_PREFIX].
	ClientPrefix string
	// KeepRetained keeps the commands and baselines of Env that the broker has retained [KEEP_RETAINED_COMMANDS].
	KeepRetained bool
	// TLS enables TLS [MQTT_CA_PATH, MQTT_CLIENT_CRT_PATH, MQTT_CLIENT_KEY_PATH]. It returns the configuration of the
	// next connection, so that certificates can be renewed.
	TLS func() *tls.Config
}

// HTTPOptions configure the HTTP tunnel.
type HTTPOptions struct {
	// Addr is where bases send their heartbeats [HTTP_TUNNEL_LISTEN_HOST, HTTP_TUNNEL_LISTEN_PORT]; default :7777.
	Addr string
	// TLS serves HTTPS; nil serves plain HTTP. With ClientAuth, the identity of a base must be the name of its
	// certificate [HTTP_TUNNEL_TLS_CERT, HTTP_TUNNEL_TLS_KEY, HTTP_TUNNEL_CLIENT_CA].
	TLS *tls.Config
	// Token is required from bases, as "Authorization: Bearer TOKEN" or as the first part of the path
	// [HTTP_TUNNEL_TOKEN].
	Token string
	// Proxy is the http URL of an HTTP proxy that connects to bases by CONNECT [HTTP_TUNNEL_PROXY]. Probes of modules
	// use it too, over both tunnels.
	Proxy *url.URL
}

// KubeletOptions configure the kubelet API, which the API server calls.
type KubeletOptions struct {
	// Host is where to listen, and the InternalDNS address of Nodes [KUBELET_HOST]. The API server must reach it, and
	// must not prefer InternalIP, as kubeadm sets it (--kubelet-preferred-address-types). Required.
	Host string
	// Port is where to listen [KUBELET_PROXY_PORT]; 0 selects a free port.
	Port int
	// CertFile and KeyFile are the serving certificate [KUBELET_TLS_CERT, KUBELET_TLS_KEY]; default self-signed.
	CertFile, KeyFile string
	// ClientCAFile has the certificate authorities of the callers [KUBELET_CLIENT_CA]. Required.
	ClientCAFile string
}

// complete sets defaults and returns all errors.
func (o *Options) complete() error {
	var errs []error
	switch {
	case o.MQTT == nil && o.HTTP == nil:
		errs = append(errs, errors.New("no tunnel is enabled: set ENABLE_MQTT_TUNNEL or ENABLE_HTTP_TUNNEL to true"))
	case o.MQTT != nil && o.MQTT.Broker == "":
		errs = append(errs, errors.New("MQTT_BROKER is empty: name the broker's host, or its URL"))
	}
	o.Env = cmp.Or(o.Env, "dev")
	if len(validation.IsDNS1123Label(o.Env)) > 0 { // a part of topics, labels and names
		errs = append(errs, fmt.Errorf(
			"ENV is %.80q: use at most 63 lower-case letters, digits and -, with a letter or digit at both ends",
			o.Env))
	}
	switch podstatus.FailedRule(o.FailedPods) {
	case "", podstatus.FailedUnowned, podstatus.FailedNever, podstatus.FailedAlways:
	default:
		errs = append(errs, fmt.Errorf("FAILED_PODS is %q: use unowned, never or always", o.FailedPods))
	}
	if o.UnreachableAfter > 0 && o.DeadAfter > 0 && o.DeadAfter <= o.UnreachableAfter {
		errs = append(errs, fmt.Errorf("a base must be unreachable (%s) before it is gone (%s)", o.UnreachableAfter,
			o.DeadAfter))
	}
	if _, err := tunnel.ParseNetworks(o.BaseNetworks); err != nil {
		errs = append(errs, fmt.Errorf("BASE_NETWORKS: %w", err))
	}
	if o.HTTP != nil && strings.Contains(o.HTTP.Token, "/") {
		errs = append(errs, errors.New("HTTP_TUNNEL_TOKEN has a /: a base may have to send it as one part of a path"))
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.periods()
	return errors.Join(errs...)
}

// periods sets the defaults of all periods and divides them by TimeScale.
func (o *Options) periods() {
	for p, d := range map[*time.Duration]time.Duration{
		&o.LeaseDuration: api.ControllerLease, &o.NodeLease: api.NodeLease,
		&o.UnreachableAfter: api.UnreachableAfter, &o.DeadAfter: api.DeadAfter, &o.ReconnectGrace: api.ReconnectGrace,
		&o.HealthInterval: api.HealthInterval, &o.ListInterval: api.ListInterval,
		&o.MassSilence.Window: api.MassWindow, &o.MassSilence.AtMost: api.MassAtMost,
		&o.InstallTimeout: api.InstallTimeout, &o.UninstallTimeout: api.UninstallTimeout, &o.Drain: api.Drain,
	} {
		*p = o.speed().Of(cmp.Or(*p, d))
	}
	o.NodeLease = pace.TimeScale(1).Seconds(o.NodeLease)
	o.LeaseDuration = max(pace.TimeScale(1).Seconds(o.LeaseDuration), api.MinControllerLease)
}

func (o *Options) speed() pace.TimeScale { return pace.TimeScale(o.TimeScale) }

// url returns the URL of the broker for the MQTT library.
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
