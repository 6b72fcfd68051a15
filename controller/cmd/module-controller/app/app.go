// Package app defines the flags of the module controller and converts them to controller.Options. The environment
// variables of the flags follow Module Controller V2 document 5.4.
package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller"
	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/certfile"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/report"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
)

// New returns the command-line application of the module controller.
func New(version string) *cli.App {
	s := &settings{}
	return &cli.App{
		Name:            "module-controller",
		Usage:           "represent Koupleless bases as Kubernetes Nodes, and their modules as Pods",
		Version:         version,
		HideHelpCommand: true,
		Flags:           s.flags(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("unexpected argument %q", c.Args().First())
			}
			opts, err := s.options(c.App.ErrWriter)
			if err != nil {
				return err
			}
			m, err := controller.New(opts)
			if err != nil {
				return err
			}
			return m.Start(c.Context)
		},
	}
}

// settings holds the values of the command-line flags.
type settings struct {
	controller.Options
	mqtt    controller.MQTTOptions
	http    controller.HTTPOptions
	kubelet controller.KubeletOptions

	mqttEnabled, httpEnabled, kubeletEnabled bool

	mqttCA, mqttCert, mqttKey        string
	httpHost, httpProxy              string
	httpPort                         int
	httpCert, httpKey, httpCA        string
	hooks, kubeconfig, level, format string
	hooksHTTP                        bool
}

// variable returns the name of the environment variable that corresponds to a flag.
func variable(flag string) string {
	switch flag {
	case "kubelet":
		return "KUBELET_PROXY_ENABLED"
	case "kubelet-port":
		return "KUBELET_PROXY_PORT"
	}
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func stringFlag(to *string, name, value, usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, EnvVars: []string{variable(name)}, Value: value, Usage: usage, Destination: to}
}

// stringFlagNoDefault returns a string flag whose help describes the effect of an empty value.
func stringFlagNoDefault(to *string, name, defaultText, usage string) *cli.StringFlag {
	f := stringFlag(to, name, "", usage)
	f.DefaultText = defaultText
	return f
}

func boolFlag(to *bool, name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, EnvVars: []string{variable(name)}, Usage: usage, Destination: to}
}

// unlimited is the upper bound of integer flags that have no maximum.
const unlimited = math.MaxInt

// intFlag returns an integer flag that accepts the values least to most, inclusive.
func intFlag(to *int, name string, value, least, most int, usage string) *cli.IntFlag {
	env := variable(name)
	return &cli.IntFlag{Name: name, EnvVars: []string{env}, Value: value, Usage: usage, Destination: to,
		Action: func(_ *cli.Context, n int) error {
			switch {
			case most == unlimited && n < least:
				return fmt.Errorf("%s is %d; use at least %d", env, n, least)
			case n < least || n > most:
				return fmt.Errorf("%s is %d; use %d to %d", env, n, least, most)
			}
			return nil
		}}
}

// durationFlag returns a duration flag that rejects negative values. The value 0 selects the default, which
// defaultText describes.
func durationFlag(to *time.Duration, name, defaultText, usage string) *cli.DurationFlag {
	f := signedDurationFlag(to, name, defaultText, usage)
	f.Action = func(_ *cli.Context, d time.Duration) error {
		if d < 0 {
			return fmt.Errorf("%s is %s; use 0 or a positive duration", variable(name), d)
		}
		return nil
	}
	return f
}

// leaseFlag returns a flag for the duration of a Lease. The value 0 selects the default.
func leaseFlag(to *time.Duration, name, defaultText, usage string) *cli.DurationFlag {
	f := signedDurationFlag(to, name, defaultText, usage)
	f.Action = func(_ *cli.Context, d time.Duration) error {
		if d != 0 && (d < api.MinControllerLease || d > vnode.MaxLease) {
			return fmt.Errorf("%s is %s; use %s to %s", variable(name), d, api.MinControllerLease,
				vnode.MaxLease)
		}
		return nil
	}
	return f
}

// signedDurationFlag returns a duration flag that accepts negative values. The value 0 selects the default.
func signedDurationFlag(to *time.Duration, name, defaultText, usage string) *cli.DurationFlag {
	return &cli.DurationFlag{Name: name, EnvVars: []string{variable(name)}, Usage: usage, DefaultText: defaultText,
		Destination: to}
}

func (s *settings) flags() []cli.Flag {
	o := &s.Options
	deployments := boolFlag(&o.Deployments, "enable-module-deployment-controller",
		"set the replicas of peer Deployments, and answer baseline queries from bases")
	deployments.Value = true
	deployments.EnvVars = append(deployments.EnvVars, "ENABLE_MODULE_REPLICAS_SYNC_WITH_BASE")
	moduleView := boolFlag(&o.ModuleView, "enable-module-view",
		"maintain Module objects, which kubectl get module shows")
	moduleView.Value = true
	mqttPort := intFlag(&s.mqtt.Port, "mqtt-port", 0, 0, 65535, "`port` of the MQTT broker")
	mqttPort.DefaultText = "1883, or 8883 with TLS"
	attempts := intFlag(&o.InstallAttempts, "install-attempts", 0, 0, unlimited,
		"`number` of failed install attempts after which a Pod has the reason RetryTimesExceeded; retries continue")
	attempts.DefaultText = "6"
	return []cli.Flag{
		boolFlag(&s.mqttEnabled, "enable-mqtt-tunnel", "communicate with bases over MQTT"),
		stringFlag(&s.mqtt.Broker, "mqtt-broker", "", "`host` name or URL of the MQTT broker"),
		mqttPort,
		stringFlag(&s.mqtt.Username, "mqtt-username", "", "user `name` for the MQTT broker"),
		stringFlag(&s.mqtt.Password, "mqtt-password", "", "`password` for the MQTT broker"),
		stringFlag(&s.mqtt.ClientPrefix, "mqtt-client-prefix", "koupleless", "`prefix` of the MQTT client ID"),
		stringFlag(&s.mqttCA, "mqtt-ca-path", "",
			"`file` with the CA certificate that verifies the MQTT broker; enables TLS"),
		stringFlag(&s.mqttCert, "mqtt-client-crt-path", "",
			"`file` with the client certificate for mutual TLS with the MQTT broker"),
		stringFlag(&s.mqttKey, "mqtt-client-key-path", "", "`file` with the key of the client certificate"),
		boolFlag(&s.mqtt.KeepRetained, "keep-retained-commands",
			"do not remove the retained commands of this environment from the broker at startup"),
		boolFlag(&s.httpEnabled, "enable-http-tunnel", "communicate with bases over HTTP"),
		intFlag(&s.httpPort, "http-tunnel-listen-port", 7777, 0, 65535,
			"`port` on which the controller receives heartbeats over HTTP; 0 selects a free port"),
		stringFlagNoDefault(&s.httpHost, "http-tunnel-listen-host", "all addresses",
			"`address` on which the controller receives heartbeats over HTTP"),
		stringFlagNoDefault(&s.httpProxy, "http-tunnel-proxy", "no proxy",
			"`URL` of an HTTP proxy that supports CONNECT, for commands and probes"),
		stringFlagNoDefault(&s.http.Token, "http-tunnel-token", "no token",
			"`token` that a base must send over HTTP, in the header Authorization: Bearer or as the first segment of "+
				"the path"),
		stringFlagNoDefault(&s.httpCert, "http-tunnel-tls-cert", "plain HTTP",
			"`file` with the serving certificate for heartbeats over HTTPS"),
		stringFlag(&s.httpKey, "http-tunnel-tls-key", "",
			"`file` with the key of the serving certificate for heartbeats"),
		stringFlagNoDefault(&s.httpCA, "http-tunnel-client-ca", "no client certificates",
			"`file` with the CA certificate that verifies the client certificates of bases; a base must then "+
				"present a certificate for its identity"),
		stringFlagNoDefault(&o.BaseNetworks, "base-networks",
			"over HTTP, only the address that sends the heartbeats; never loopback or link-local addresses",
			"comma-separated `CIDRs` of the addresses that bases may report; if set, a base with the MQTT tunnel "+
				"must report such an address"),
		intFlag(&o.MaxBases, "max-bases", base.DefaultMaxBases, 1, unlimited, "maximum `number` of bases"),
		intFlag(&o.MaxBasesPerAddress, "max-bases-per-address", base.DefaultMaxPerAddress, 1, unlimited,
			"maximum `number` of bases that send heartbeats over HTTP from the same address"),
		deployments,
		moduleView,
		boolFlag(&s.kubeletEnabled, "kubelet", "serve kubectl logs and kubectl exec for module Pods"),
		stringFlag(&s.kubelet.Host, "kubelet-host", "",
			"`address` to which the API server connects for logs and exec; Nodes publish the address as InternalDNS, so "+
				"the API server must not prefer InternalIP"),
		intFlag(&s.kubelet.Port, "kubelet-port", 10250, 0, 65535, "`port` for logs and exec; 0 selects a free port"),
		stringFlagNoDefault(&s.kubelet.CertFile, "kubelet-tls-cert", "self-signed",
			"`file` with the serving certificate for logs and exec"),
		stringFlag(&s.kubelet.KeyFile, "kubelet-tls-key", "",
			"`file` with the key of the serving certificate for logs and exec"),
		stringFlag(&s.kubelet.ClientCAFile, "kubelet-client-ca", "",
			"`file` with the CA certificate that verifies the client certificate of the API server"),
		stringFlag(&s.kubelet.BaseLogFile, "base-log-file", "",
			"log `file` of simulated bases, whose lines kubectl logs also prints"),
		stringFlag(&s.hooks, "report-hooks", "",
			"webhook `URLs` of DingTalk robots that receive failure reports, separated by semicolons; append "+
				"#SECRET to sign messages"),
		boolFlag(&s.hooksHTTP, "report-hooks-allow-http",
			"allow http URLs in report-hooks, which send their tokens unencrypted"),
		stringFlag(&o.FailedPods, "failed-pods", "unowned",
			"`rule` for Pods whose phase becomes Failed when a newer version of their module is active: unowned "+
				"(Pods without a controller), never or always"),
		boolFlag(&o.KeepSameVersion, "keep-same-version",
			"do not replace a module whose image changes while BIZ_VERSION does not change"),
		boolFlag(&o.LeavePodTolerations, "leave-pod-tolerations",
			"do not change the tolerations of module Pods; by default, the controller adds the toleration of this "+
				"environment, and removes the default time limit for unreachable Nodes"),
		stringFlag(&o.Env, "env", "dev", "`environment` of this controller, a lower-case DNS label"),
		stringFlagNoDefault(&o.ClientID, "client-id", "random",
			"`ID` of this controller, unique in its environment"),
		boolFlag(&o.Cluster, "is-cluster", "divide the bases among the controllers of the same environment"),
		intFlag(&o.WorkloadMaxLevel, "workload-max-level", 3, 1, unlimited,
			"`number` of workload levels; each delays taking a base by 100 ms; requires is-cluster"),
		intFlag(&o.VNodeWorkers, "vnode-worker-num", 8, 1, unlimited,
			"maximum `number` of modules that one base installs or uninstalls concurrently"),
		leaseFlag(&o.LeaseDuration, "lease-duration", "15s",
			"how long the Lease of this controller is valid; after it expires, another controller takes "+
				"over the bases"),
		leaseFlag(&o.NodeLease, "node-lease-duration", "40s",
			"how long the Lease of a Node is valid; the controller renews the Lease after half of this time; must be "+
				"shorter than --node-monitor-grace-period of kube-controller-manager"),
		durationFlag(&o.UnreachableAfter, "base-unreachable-after", "25s",
			"how long a base may miss heartbeats before the Ready condition of its Node becomes Unknown"),
		durationFlag(&o.DeadAfter, "base-dead-after", "60s",
			"how long a base may miss heartbeats before its Node is deleted"),
		signedDurationFlag(&o.ReconnectGrace, "reconnect-grace", "128s",
			"how long missed heartbeats are ignored after the broker connection recovers; a negative value disables "+
				"the grace period"),
		intFlag(&o.MassOutage.Percent, "mass-silence-percent", 50, 0, 100,
			"`percentage` of unreachable bases of a tunnel above which a network failure is assumed and no Node is "+
				"deleted; 0 disables the detection"),
		intFlag(&o.MassOutage.MinBases, "mass-silence-min-bases", 3, 0, unlimited,
			"minimum `number` of bases of a tunnel for a network failure to be assumed"),
		durationFlag(&o.MassOutage.Window, "mass-silence-window", "1m",
			"time within which the bases must start to miss heartbeats for a network failure to be assumed"),
		durationFlag(&o.MassOutage.MaxDuration, "mass-silence-at-most", "30m",
			"maximum time for which a network failure is assumed"),
		intFlag(&o.DeletionsPercent, "base-deletions-percent", 10, 0, 100,
			"maximum `percentage` of all bases whose Nodes are deleted per minute because of missed heartbeats, "+
				"but at least one Node"),
		durationFlag(&o.HealthInterval, "health-interval", "10s", "time between two health checks of a base"),
		durationFlag(&o.ListInterval, "list-interval", "15s", "time between two module list queries of a base"),
		durationFlag(&o.InstallTimeout, "install-timeout", "5m", "maximum time for a base to install a module"),
		durationFlag(&o.UninstallTimeout, "uninstall-timeout", "1m", "maximum time for a base to uninstall a module"),
		attempts,
		signedDurationFlag(&o.Drain, "module-drain", "2s",
			"how long a module stays installed after its Ready Pod is deleted; a negative value disables the delay"),
		intFlag(&o.TimeScale, "time-scale", 1, 1, pace.MaxTimeScale,
			"`factor` from 1 to 20 that divides all durations, for tests of long outages"),
		stringFlagNoDefault(&s.kubeconfig, "kubeconfig", "in-cluster configuration",
			"kubeconfig `file` for the Kubernetes API"),
		stringFlag(&o.MetricsAddr, "metrics-addr", ":9090",
			"`address` that serves /metrics; an empty value disables the endpoint"),
		stringFlag(&o.HealthAddr, "health-addr", ":8081",
			"`address` that serves /healthz, /readyz and /tunnelz; an empty value disables the endpoints"),
		boolFlag(&o.Profiling, "profiling", "serve /debug/pprof at the address of /metrics"),
		stringFlag(&s.level, "log-level", "info", "minimum `level` of log lines: debug, info, warn or error"),
		stringFlag(&s.format, "log-format", "text", "`format` of log lines: text or json"),
	}
}

// options converts the flags to the options of the controller. The logger of the controller writes to log.
func (s *settings) options(log io.Writer) (controller.Options, error) {
	o := s.Options
	var err error
	o.Logger, err = newLogger(log, s.level, s.format)
	if err != nil {
		return o, err
	}
	o.Config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return o, fmt.Errorf("loading the Kubernetes client configuration (KUBECONFIG=%q): %w", s.kubeconfig, err)
	}
	if o.MassOutage.Percent == 0 {
		o.MassOutage.Percent = -1
	}
	o.ClientID = cmp.Or(o.ClientID, string(uuid.NewUUID()))
	o.ReportHooks, err = report.ParseHooks(s.hooks, s.hooksHTTP)
	if err != nil {
		return o, fmt.Errorf("REPORT_HOOKS: %w", err)
	}
	if s.kubeletEnabled {
		o.Kubelet = &s.kubelet
		switch {
		case s.kubelet.Host == "":
			return o, errors.New(
				"KUBELET_HOST is empty; set it to the address at which the API server reaches this controller")
		case s.kubelet.ClientCAFile == "":
			return o, errors.New(
				"KUBELET_CLIENT_CA is empty; set it to the file with the CA certificate for the API server's client " +
					"certificate")
		}
	}
	if s.httpEnabled {
		o.HTTP = &s.http
		o.HTTP.Addr = net.JoinHostPort(s.httpHost, strconv.Itoa(s.httpPort))
		o.HTTP.Proxy, err = proxyURL(s.httpProxy)
		if err != nil {
			return o, err
		}
		o.HTTP.TLS, err = serverTLS(s.httpCert, s.httpKey, s.httpCA, o.Logger)
		if err != nil {
			return o, err
		}
	}
	if s.mqttEnabled {
		o.MQTT = &s.mqtt
		o.MQTT.TLS, err = clientTLS(s.mqttCA, s.mqttCert, s.mqttKey, o.Logger)
	}
	return o, err
}

// serverTLS returns the TLS configuration of the HTTP tunnel, or nil if no certificate file is set.
func serverTLS(crt, key, ca string, logger *slog.Logger) (*tls.Config, error) {
	switch {
	case crt == "" && key == "" && ca == "":
		return nil, nil
	case crt == "" || key == "":
		return nil, errors.New(
			"HTTP_TUNNEL_TLS_CERT or HTTP_TUNNEL_TLS_KEY is empty; set both or neither; " +
				"HTTP_TUNNEL_CLIENT_CA requires both")
	}
	template := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		template.ClientAuth = tls.RequireAndVerifyClientCert
	}
	source, err := certfile.Open(template, certfile.Files{
		Cert: certfile.File{Setting: "HTTP_TUNNEL_TLS_CERT", Path: crt},
		Key:  certfile.File{Setting: "HTTP_TUNNEL_TLS_KEY", Path: key},
		CA:   certfile.File{Setting: "HTTP_TUNNEL_CLIENT_CA", Path: ca},
	}, logger)
	if err != nil {
		return nil, err
	}
	return source.Server(), nil
}

// proxyURL parses HTTP_TUNNEL_PROXY. It returns nil for an empty value.
func proxyURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return nil, fmt.Errorf("HTTP_TUNNEL_PROXY is %q; use http://host:port", text)
	}
	return u, nil
}

// clientTLS returns a function that returns the TLS configuration for the MQTT tunnel. It returns a nil function if
// no certificate file is set.
func clientTLS(ca, crt, key string, logger *slog.Logger) (func() *tls.Config, error) {
	if ca == "" && crt == "" && key == "" {
		return nil, nil
	}
	if (crt == "") != (key == "") {
		return nil, errors.New("MQTT_CLIENT_CRT_PATH or MQTT_CLIENT_KEY_PATH is empty; set both or neither")
	}
	source, err := certfile.Open(&tls.Config{MinVersion: tls.VersionTLS12}, certfile.Files{
		Cert: certfile.File{Setting: "MQTT_CLIENT_CRT_PATH", Path: crt},
		Key:  certfile.File{Setting: "MQTT_CLIENT_KEY_PATH", Path: key},
		CA:   certfile.File{Setting: "MQTT_CA_PATH", Path: ca},
	}, logger)
	if err != nil {
		return nil, err
	}
	return source.Config, nil
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("LOG_LEVEL is %q; use debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch strings.ToLower(format) {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	default:
		return nil, fmt.Errorf("LOG_FORMAT is %q; use text or json", format)
	}
}
