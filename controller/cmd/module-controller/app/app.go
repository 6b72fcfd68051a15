// Package app holds the flags of the module controller and turns them into controller.Options. Each flag has the
// environment variable of Module Controller V2 document 5.4.
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

// New returns the command line of the module controller.
func New(version string) *cli.App {
	s := &settings{}
	return &cli.App{
		Name:            "module-controller",
		Usage:           "show the bases of Koupleless to Kubernetes as Nodes, and their modules as Pods",
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

// settings are the values of the flags.
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

// variable returns the environment variable of a flag.
func variable(flag string) string {
	switch flag {
	case "kubelet":
		return "KUBELET_PROXY_ENABLED"
	case "kubelet-port":
		return "KUBELET_PROXY_PORT"
	}
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func text(to *string, name, value, usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, EnvVars: []string{variable(name)}, Value: value, Usage: usage, Destination: to}
}

// optional returns the flag of a text whose default is shown in words.
func optional(to *string, name, shown, usage string) *cli.StringFlag {
	f := text(to, name, "", usage)
	f.DefaultText = shown
	return f
}

func toggle(to *bool, name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, EnvVars: []string{variable(name)}, Usage: usage, Destination: to}
}

// unlimited is the maximum of a number without a maximum.
const unlimited = math.MaxInt

// number returns the flag of an integer from least to most.
func number(to *int, name string, value, least, most int, usage string) *cli.IntFlag {
	env := variable(name)
	return &cli.IntFlag{Name: name, EnvVars: []string{env}, Value: value, Usage: usage, Destination: to,
		Action: func(_ *cli.Context, n int) error {
			switch {
			case most == unlimited && n < least:
				return fmt.Errorf("%s is %d: it must be at least %d", env, n, least)
			case n < least || n > most:
				return fmt.Errorf("%s is %d: it must be %d to %d", env, n, least, most)
			}
			return nil
		}}
}

// period returns the flag of a duration that is not negative. Its default is shown in words; 0 means the default.
func period(to *time.Duration, name, shown, usage string) *cli.DurationFlag {
	f := signed(to, name, shown, usage)
	f.Action = func(_ *cli.Context, d time.Duration) error {
		if d < 0 {
			return fmt.Errorf("%s is %s: it must not be negative", variable(name), d)
		}
		return nil
	}
	return f
}

// lease returns the flag of the duration of a Lease.
func lease(to *time.Duration, name, shown, usage string) *cli.DurationFlag {
	f := signed(to, name, shown, usage)
	f.Action = func(_ *cli.Context, d time.Duration) error {
		if d != 0 && (d < api.MinControllerLease || d > vnode.MaxLease) {
			return fmt.Errorf("%s is %s: it must be %s to %s", variable(name), d, api.MinControllerLease,
				vnode.MaxLease)
		}
		return nil
	}
	return f
}

func signed(to *time.Duration, name, shown, usage string) *cli.DurationFlag {
	return &cli.DurationFlag{Name: name, EnvVars: []string{variable(name)}, Usage: usage, DefaultText: shown,
		Destination: to}
}

func (s *settings) flags() []cli.Flag {
	o := &s.Options
	deployments := toggle(&o.Deployments, "enable-module-deployment-controller",
		"set the replicas of peer Deployments, and answer bases that ask for their baseline")
	deployments.EnvVars = append(deployments.EnvVars, "ENABLE_MODULE_REPLICAS_SYNC_WITH_BASE")
	mqttPort := number(&s.mqtt.Port, "mqtt-port", 0, 0, 65535, "`PORT` of the broker")
	mqttPort.DefaultText = "1883, with TLS 8883"
	attempts := number(&o.InstallAttempts, "install-attempts", 0, 0, unlimited,
		"maximum number of failed installs of a module")
	attempts.DefaultText = "6"
	return []cli.Flag{
		toggle(&s.mqttEnabled, "enable-mqtt-tunnel", "reach bases over MQTT"),
		text(&s.mqtt.Broker, "mqtt-broker", "", "`HOST` or URL of the broker"),
		mqttPort,
		text(&s.mqtt.Username, "mqtt-username", "", "`USER` at the broker"),
		text(&s.mqtt.Password, "mqtt-password", "", "`PASSWORD` at the broker"),
		text(&s.mqtt.ClientPrefix, "mqtt-client-prefix", "koupleless", "`PREFIX` of the MQTT client id"),
		text(&s.mqttCA, "mqtt-ca-path", "",
			"`FILE` with the authority that signed the broker's certificate; turns TLS on"),
		text(&s.mqttCert, "mqtt-client-crt-path", "", "`FILE` with the client certificate for mutual TLS"),
		text(&s.mqttKey, "mqtt-client-key-path", "", "`FILE` with its key"),
		toggle(&s.mqtt.KeepRetained, "keep-retained-commands",
			"leave commands of this environment that the broker has retained; otherwise they are removed at the start"),
		toggle(&s.httpEnabled, "enable-http-tunnel", "reach bases over HTTP"),
		number(&s.httpPort, "http-tunnel-listen-port", 7777, 0, 65535,
			"`PORT` for heartbeats over HTTP; 0: a free one"),
		optional(&s.httpHost, "http-tunnel-listen-host", "all", "`HOST` to listen on for them"),
		optional(&s.httpProxy, "http-tunnel-proxy", "no proxy",
			"`URL` of an HTTP proxy that connects to bases by CONNECT, for commands and probes"),
		optional(&s.http.Token, "http-tunnel-token", "none",
			"`TOKEN` that bases must send over HTTP, as Authorization: Bearer TOKEN or as the first part of the path"),
		optional(&s.httpCert, "http-tunnel-tls-cert", "plain HTTP",
			"`FILE` with the certificate for heartbeats over HTTPS"),
		text(&s.httpKey, "http-tunnel-tls-key", "", "`FILE` with its key"),
		optional(&s.httpCA, "http-tunnel-client-ca", "none is asked for",
			"`FILE` with the authority of the bases' certificates; a base must show one of its identity"),
		optional(&o.BaseNetworks, "base-networks",
			"over HTTP the address that its heartbeats come from; never loopback or link-local",
			"comma-separated `CIDRS` in which a base may report any address; if set, a base over MQTT must report an "+
				"address in them"),
		number(&o.MaxBases, "max-bases", base.DefaultMaxBases, 1, unlimited,
			"`NUMBER` of bases that are known at most"),
		number(&o.MaxBasesPerAddress, "max-bases-per-address", base.DefaultMaxPerAddress, 1, unlimited,
			"maximum `NUMBER` of bases that send heartbeats from one address over HTTP, such as the "+
				"address of a proxy"),
		deployments,
		toggle(&o.ModuleView, "enable-module-view", "keep a Module for each module Pod, for kubectl get module"),
		toggle(&s.kubeletEnabled, "kubelet", "serve kubectl logs and exec of module Pods"),
		text(&s.kubelet.Host, "kubelet-host", "",
			"`HOST` where the API server reaches that, by the address InternalDNS of Nodes; it must not "+
				"prefer InternalIP"),
		number(&s.kubelet.Port, "kubelet-port", 10250, 0, 65535, "`PORT` for it; 0: a free one"),
		optional(&s.kubelet.CertFile, "kubelet-tls-cert", "self-signed", "`FILE` with its certificate"),
		text(&s.kubelet.KeyFile, "kubelet-tls-key", "", "`FILE` with the key"),
		text(&s.kubelet.ClientCAFile, "kubelet-client-ca", "",
			"`FILE` with the authority of the API server's client certificate"),
		text(&s.hooks, "report-hooks", "",
			"`URLS` of DingTalk robots that are told of failures, separated by ;, each with #SECRET behind it if the "+
				"robot wants messages signed"),
		toggle(&s.hooksHTTP, "report-hooks-allow-http",
			"take http URLs for these too, whose tokens others can read on the way"),
		text(&o.FailedPods, "failed-pods", "unowned",
			"`WHICH` Pods turn Failed when a newer version of their module serves: unowned, never or always"),
		toggle(&o.KeepSameVersion, "keep-same-version",
			"never replace a module when its image changes and BIZ_VERSION does not: that takes a gap"),
		toggle(&o.LeavePodTolerations, "leave-pod-tolerations",
			"leave the tolerations of module Pods as they are: without this environment, and with a limit on "+
				"unreachable Nodes"),
		text(&o.Env, "env", "dev", "`ENVIRONMENT` that this controller serves, a lower-case DNS label"),
		optional(&o.ClientID, "client-id", "random", "`ID` of this controller, unique in its environment"),
		toggle(&o.Cluster, "is-cluster", "several controllers share the bases"),
		number(&o.WorkloadMaxLevel, "workload-max-level", 3, 1, unlimited,
			"workload `LEVELS` by which controllers of a cluster share the bases"),
		number(&o.VNodeWorkers, "vnode-worker-num", 8, 1, unlimited,
			"`NUMBER` of modules that one base installs or uninstalls at once"),
		lease(&o.LeaseDuration, "lease-duration", "15s",
			"how long this controller may be silent before another one takes its bases"),
		lease(&o.NodeLease, "node-lease-duration", "40s",
			"for how long the Lease of a base's Node is good, renewed at half of it; less than "+
				"kube-controller-manager's --node-monitor-grace-period"),
		period(&o.UnreachableAfter, "base-unreachable-after", "25s", "silence after which a base's Node turns Unknown"),
		period(&o.DeadAfter, "base-dead-after", "60s", "silence after which a base's Node is removed"),
		signed(&o.ReconnectGrace, "reconnect-grace", "128s",
			"for how long after the broker is back the silence of a base does not count; negative: not at all"),
		number(&o.MassSilence.Percent, "mass-silence-percent", 50, 0, 100,
			"how many `PERCENT` of the bases of a tunnel, silent at once, are taken for a fault of the way to them; "+
				"0: each is judged by itself"),
		number(&o.MassSilence.AtLeast, "mass-silence-min-bases", 3, 0, unlimited,
			"with fewer than this `NUMBER` of bases each is judged by itself"),
		period(&o.MassSilence.Window, "mass-silence-window", "1m", "within which time they fell silent"),
		period(&o.MassSilence.AtMost, "mass-silence-at-most", "30m", "for how long that is believed"),
		number(&o.DeletionsPercent, "base-deletions-percent", 10, 0, 100,
			"how many `PERCENT` of the bases may be removed for their silence in a minute, one at least"),
		period(&o.HealthInterval, "health-interval", "10s", "how often a base is asked for its health"),
		period(&o.ListInterval, "list-interval", "15s", "how often a base is asked for its modules"),
		period(&o.InstallTimeout, "install-timeout", "5m", "how long a base may take to install a module"),
		period(&o.UninstallTimeout, "uninstall-timeout", "1m", "how long a base may take to uninstall a module"),
		attempts,
		signed(&o.Drain, "module-drain", "2s",
			"how long the module of a deleted Pod that was Ready stays installed; negative: not at all"),
		number(&o.TimeScale, "time-scale", 1, 1, pace.MaxTimeScale,
			"divide every period by this `NUMBER`, 1 to 20: for tests of long outages"),
		optional(&s.kubeconfig, "kubeconfig", "the cluster that this runs in",
			"`FILE` that reaches the Kubernetes API"),
		text(&o.MetricsAddr, "metrics-addr", ":9090", "`ADDRESS` that serves /metrics; empty: none"),
		text(&o.HealthAddr, "health-addr", ":8081",
			"`ADDRESS` that serves /healthz, /readyz and /tunnelz; empty: none"),
		toggle(&o.Profiling, "profiling", "serve /debug/pprof beside the metrics"),
		text(&s.level, "log-level", "info", "`LEVEL`: debug, info, warn or error"),
		text(&s.format, "log-format", "text", "`FORMAT`: text or json"),
	}
}

// options returns the options of the controller. Errors of the logger are written to log.
func (s *settings) options(log io.Writer) (controller.Options, error) {
	o := s.Options
	var err error
	o.Logger, err = newLogger(log, s.level, s.format)
	if err != nil {
		return o, err
	}
	o.Config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return o, fmt.Errorf("finding the Kubernetes API (KUBECONFIG=%q): %w", s.kubeconfig, err)
	}
	if o.MassSilence.Percent == 0 {
		o.MassSilence.Percent = -1
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
				"KUBELET_HOST is empty: name the address at which the API server reaches this controller")
		case s.kubelet.ClientCAFile == "":
			return o, errors.New(
				"KUBELET_CLIENT_CA is empty: name the file with the authority of the API server's client certificate")
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

// serverTLS is nil when no file is named.
func serverTLS(crt, key, ca string, logger *slog.Logger) (*tls.Config, error) {
	switch {
	case crt == "" && key == "" && ca == "":
		return nil, nil
	case crt == "" || key == "":
		return nil, errors.New(
			"HTTP_TUNNEL_TLS_CERT and HTTP_TUNNEL_TLS_KEY go together, and HTTP_TUNNEL_CLIENT_CA needs both")
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

// proxyURL is nil when there is no proxy.
func proxyURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return nil, fmt.Errorf("HTTP_TUNNEL_PROXY is %q: it must be http://host:port", text)
	}
	return u, nil
}

// clientTLS is nil when no file is named.
func clientTLS(ca, crt, key string, logger *slog.Logger) (func() *tls.Config, error) {
	if ca == "" && crt == "" && key == "" {
		return nil, nil
	}
	if (crt == "") != (key == "") {
		return nil, errors.New("MQTT_CLIENT_CRT_PATH and MQTT_CLIENT_KEY_PATH go together: set both or none")
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
		return nil, fmt.Errorf("LOG_LEVEL is %q: use debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch strings.ToLower(format) {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	default:
		return nil, fmt.Errorf("LOG_FORMAT is %q: use text or json", format)
	}
}
