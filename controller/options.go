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

// Options configure a Controller. The zero value of a field selects the default of the setting; for a bool, it disables
// the feature. The environment variable of each setting is in brackets. The flags in cmd/module-controller check the
// range of each number and duration, and enable Deployments and ModuleView by default.
type Options struct {
	// Config is the configuration of the client for the Kubernetes API. Required.
	Config *rest.Config
	// ClientID is the value of CLIENT_ID, unique among the controllers of one environment. Required.
	ClientID string
	// Env is the environment [ENV]. It becomes a label and a taint of every Node, and a part of every MQTT topic. It
	// must be a lower-case DNS label; default dev.
	Env string
	// MQTT and HTTP configure the two tunnels; nil disables a tunnel [ENABLE_MQTT_TUNNEL, ENABLE_HTTP_TUNNEL].
	MQTT *MQTTOptions
	HTTP *HTTPOptions
	// BaseNetworks are CIDRs in which a base may report any address [BASE_NETWORKS]. Over HTTP, a base can also
	// report the source address of its heartbeats, unless this address is loopback or link-local.
	BaseNetworks string
	// MaxBases is the maximum number of bases [MAX_BASES]. MaxBasesPerAddress is the maximum number of bases that send
	// heartbeats over HTTP from the same address without a client certificate [MAX_BASES_PER_ADDRESS].
	MaxBases, MaxBasesPerAddress int
	// Cluster enables sharing the bases of an environment among several controllers [IS_CLUSTER].
	Cluster bool
	// WorkloadMaxLevel is the number of workload levels in a cluster [WORKLOAD_MAX_LEVEL].
	WorkloadMaxLevel int
	// VNodeWorkers is the number of modules that one base installs or uninstalls concurrently [VNODE_WORKER_NUM].
	VNodeWorkers int

	// Deployments enables responses to baseline queries and the peer Deployment controller, which sets the replicas
	// of peer Deployments [ENABLE_MODULE_DEPLOYMENT_CONTROLLER].
	Deployments bool
	// ModuleView enables creating a Module object for each container of a module Pod [ENABLE_MODULE_VIEW].
	ModuleView bool
	// Kubelet configures logs and exec of module Pods; nil disables them [KUBELET_PROXY_ENABLED].
	Kubelet *KubeletOptions
	// ReportHooks are the URLs of webhooks that receive failures [REPORT_HOOKS]. The fragment of a URL is the secret
	// that signs the messages.
	ReportHooks []*url.URL
	// FailedPods selects the Pods that become Failed when a newer version of their module is active on their base:
	// unowned (Pods without a controller), never or always [FAILED_PODS].
	FailedPods string
	// KeepSameVersion disables replacing a module when its image changes but its version does not
	// [KEEP_SAME_VERSION].
	KeepSameVersion bool
	// LeavePodTolerations disables adding tolerations to module Pods [LEAVE_POD_TOLERATIONS].
	LeavePodTolerations bool

	// LeaseDuration is the duration of the Lease of this controller [LEASE_DURATION].
	LeaseDuration time.Duration
	// NodeLease is the duration of the Lease of a Node [NODE_LEASE_DURATION]. It must be less than
	// kube-controller-manager's --node-monitor-grace-period.
	NodeLease time.Duration
	// UnreachableAfter is how long a base may miss heartbeats before its Node is Not Ready [BASE_UNREACHABLE_AFTER].
	// DeadAfter is how long it may miss heartbeats before its Node is deleted [BASE_DEAD_AFTER].
	UnreachableAfter, DeadAfter time.Duration
	// ReconnectGrace is how long missed heartbeats are ignored after the broker connection recovers; a negative value
	// disables this grace period [RECONNECT_GRACE].
	ReconnectGrace time.Duration
	// MassOutage configures the detection of mass outages [MASS_SILENCE_*].
	MassOutage base.MassOptions
	// DeletionsPercent is the maximum percentage of bases that are removed per minute because of missed heartbeats
	// [BASE_DELETIONS_PERCENT].
	DeletionsPercent int
	// HealthInterval is the time between two health checks of a base [HEALTH_INTERVAL]. ListInterval is the time
	// between two module list queries [LIST_INTERVAL].
	HealthInterval, ListInterval time.Duration
	// InstallTimeout and UninstallTimeout are the maximum durations of install and uninstall commands
	// [INSTALL_TIMEOUT, UNINSTALL_TIMEOUT].
	InstallTimeout, UninstallTimeout time.Duration
	// InstallAttempts is the number of failed attempts to install a module after which the controller reports that
	// the retry limit is reached [INSTALL_ATTEMPTS]. The controller continues to retry after that.
	InstallAttempts int
	// Drain is how long a module stays installed after its Ready Pod is deleted; a negative value disables the delay
	// [MODULE_DRAIN].
	Drain time.Duration

	// TimeScale divides every duration of the controller [TIME_SCALE]. Tests use it to simulate long outages, with
	// bases of the same time scale.
	TimeScale int

	// MetricsAddr is the address of /metrics; empty disables it [METRICS_ADDR]. HealthAddr is the address of /healthz,
	// /readyz and /tunnelz; empty disables it [HEALTH_ADDR]. Profiling serves /debug/pprof at MetricsAddr [PROFILING].
	MetricsAddr, HealthAddr string
	Profiling               bool
	// Logger receives the log; nil discards it.
	Logger *slog.Logger
}

// MQTTOptions configure the MQTT tunnel.
type MQTTOptions struct {
	// Broker is the broker address: host, host:port or a URL with the scheme tcp, mqtt, ssl, tls or mqtts
	// [MQTT_BROKER]. Required.
	Broker string
	// Port is the broker port if Broker contains no port [MQTT_PORT]; default 1883, or 8883 with TLS.
	Port int
	// Username and Password are the credentials for the broker [MQTT_USERNAME, MQTT_PASSWORD].
	Username, Password string
	// ClientPrefix is the prefix of the MQTT client ID [MQTT_CLIENT_PREFIX].
	ClientPrefix string
	// KeepRetained leaves retained commands and baselines of Env on the broker [KEEP_RETAINED_COMMANDS].
	KeepRetained bool
	// TLS enables TLS [MQTT_CA_PATH, MQTT_CLIENT_CRT_PATH, MQTT_CLIENT_KEY_PATH]. It is called before each connection
	// and returns the TLS configuration, so that certificates can be renewed.
	TLS func() *tls.Config
}

// HTTPOptions configure the HTTP tunnel.
type HTTPOptions struct {
	// Addr is the address on which the tunnel listens for heartbeats [HTTP_TUNNEL_LISTEN_HOST,
	// HTTP_TUNNEL_LISTEN_PORT]; default :7777.
	Addr string
	// TLS is the server configuration for HTTPS; nil selects plain HTTP. With ClientAuth, the identity of a base must
	// be the name in its client certificate [HTTP_TUNNEL_TLS_CERT, HTTP_TUNNEL_TLS_KEY, HTTP_TUNNEL_CLIENT_CA].
	TLS *tls.Config
	// Token is the token that bases must send, as "Authorization: Bearer TOKEN" or as the first segment of the path;
	// empty means none [HTTP_TUNNEL_TOKEN].
	Token string
	// Proxy is the http URL of an HTTP proxy that supports CONNECT; nil means none [HTTP_TUNNEL_PROXY]. The HTTP
	// tunnel sends commands through the proxy. Module probes use the proxy for bases of both tunnels.
	Proxy *url.URL
}

// KubeletOptions configure the kubelet API, which the API server calls for logs and exec.
type KubeletOptions struct {
	// Host is the address to listen on, and the InternalDNS address of Nodes [KUBELET_HOST]. The API server must be
	// able to connect to this address, and must not prefer InternalIP (--kubelet-preferred-address-types), which
	// kubeadm configures by default. Required.
	Host string
	// Port is the port to listen on [KUBELET_PROXY_PORT]; 0 selects a free port.
	Port int
	// CertFile and KeyFile are the files with the serving certificate and its key [KUBELET_TLS_CERT,
	// KUBELET_TLS_KEY]; default self-signed.
	CertFile, KeyFile string
	// ClientCAFile is the file with the CA certificates that verify the client certificates of callers
	// [KUBELET_CLIENT_CA]. Required.
	ClientCAFile string
	// BaseLogFile is the log file of processes that run simulated bases [BASE_LOG_FILE]; default none.
	BaseLogFile string
}

// complete sets the defaults. It returns the joined errors of all invalid options.
func (o *Options) complete() error {
	var errs []error
	switch {
	case o.MQTT == nil && o.HTTP == nil:
		errs = append(errs, errors.New("no tunnel is enabled; set ENABLE_MQTT_TUNNEL or ENABLE_HTTP_TUNNEL to true"))
	case o.MQTT != nil && o.MQTT.Broker == "":
		errs = append(errs, errors.New("MQTT_BROKER is empty; set it to the host name or the URL of the broker"))
	}
	o.Env = cmp.Or(o.Env, "dev")
	if len(validation.IsDNS1123Label(o.Env)) > 0 { // a part of topics, labels and names
		errs = append(errs, fmt.Errorf(
			"ENV is %.80q; use at most 63 lower-case letters, digits and -, with a letter or digit at both ends",
			o.Env))
	}
	switch podstatus.FailedRule(o.FailedPods) {
	case "", podstatus.FailedUnowned, podstatus.FailedNever, podstatus.FailedAlways:
	default:
		errs = append(errs, fmt.Errorf("FAILED_PODS is %q; use unowned, never or always", o.FailedPods))
	}
	if o.UnreachableAfter > 0 && o.DeadAfter > 0 && o.DeadAfter <= o.UnreachableAfter {
		errs = append(errs, fmt.Errorf("BASE_DEAD_AFTER is %s; use more than BASE_UNREACHABLE_AFTER, which is %s",
			o.DeadAfter, o.UnreachableAfter))
	}
	if _, err := tunnel.ParseNetworks(o.BaseNetworks); err != nil {
		errs = append(errs, fmt.Errorf("BASE_NETWORKS: %w", err))
	}
	if o.HTTP != nil && strings.Contains(o.HTTP.Token, "/") {
		errs = append(errs, errors.New(
			"HTTP_TUNNEL_TOKEN contains a slash; use a token without a slash, because "+
				"bases may send it as a path segment"))
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.periods()
	return errors.Join(errs...)
}

// periods sets the defaults of all durations and divides them by TimeScale.
func (o *Options) periods() {
	for p, d := range map[*time.Duration]time.Duration{
		&o.LeaseDuration: api.ControllerLease, &o.NodeLease: api.NodeLease,
		&o.UnreachableAfter: api.UnreachableAfter, &o.DeadAfter: api.DeadAfter, &o.ReconnectGrace: api.ReconnectGrace,
		&o.HealthInterval: api.HealthInterval, &o.ListInterval: api.ListInterval,
		&o.MassOutage.Window: api.MassWindow, &o.MassOutage.MaxDuration: api.MassAtMost,
		&o.InstallTimeout: api.InstallTimeout, &o.UninstallTimeout: api.UninstallTimeout, &o.Drain: api.Drain,
	} {
		*p = o.timeScale().Of(cmp.Or(*p, d))
	}
	o.NodeLease = pace.TimeScale(1).Seconds(o.NodeLease)
	o.LeaseDuration = max(pace.TimeScale(1).Seconds(o.LeaseDuration), api.MinControllerLease)
}

func (o *Options) timeScale() pace.TimeScale { return pace.TimeScale(o.TimeScale) }

// url returns the broker URL for the MQTT library.
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
		return "", fmt.Errorf("MQTT_BROKER has the scheme %q; use tcp, mqtt, ssl, tls or mqtts", scheme)
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
