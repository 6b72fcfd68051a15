// Package app holds the flags of the module controller and turns them into controller.Options. Each flag has the
// environment variable of Module Controller V2 document 5.4.
package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/certfile"
	"github.com/koupleless/koupsandbox/controller/internal/report"
)

// New returns the command line of the module controller.
func New(version string) *cli.App {
	return &cli.App{
		Name:            "module-controller",
		Usage:           "show the bases of Koupleless to Kubernetes as Nodes, and their modules as Pods",
		Version:         version,
		HideHelpCommand: true,
		Flags:           flags(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("unexpected argument %q", c.Args().First())
			}
			opts, err := options(c)
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

func flags() []cli.Flag {
	text := func(name, env, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: []string{env}, Value: value, Usage: usage}
	}
	return []cli.Flag{
		&cli.BoolFlag{Name: "enable-mqtt-tunnel", EnvVars: []string{"ENABLE_MQTT_TUNNEL"}, Usage: "reach bases over MQTT"},
		text("mqtt-broker", "MQTT_BROKER", "", "`HOST` or URL of the broker"),
		&cli.IntFlag{Name: "mqtt-port", EnvVars: []string{"MQTT_PORT"}, Usage: "`PORT` of the broker", DefaultText: "1883, with TLS 8883"},
		text("mqtt-username", "MQTT_USERNAME", "", "`USER` at the broker"),
		text("mqtt-password", "MQTT_PASSWORD", "", "`PASSWORD` at the broker"),
		text("mqtt-client-prefix", "MQTT_CLIENT_PREFIX", "koupleless", "`PREFIX` of the MQTT client id"),
		text("mqtt-ca-path", "MQTT_CA_PATH", "", "`FILE` with the authority that signed the broker's certificate; turns TLS on"),
		text("mqtt-client-crt-path", "MQTT_CLIENT_CRT_PATH", "", "`FILE` with the client certificate for mutual TLS"),
		text("mqtt-client-key-path", "MQTT_CLIENT_KEY_PATH", "", "`FILE` with its key"),
		&cli.BoolFlag{Name: "keep-retained-commands", EnvVars: []string{"KEEP_RETAINED_COMMANDS"}, Usage: "leave commands of this environment that the broker has retained; otherwise they are removed at the start"},
		&cli.BoolFlag{Name: "enable-http-tunnel", EnvVars: []string{"ENABLE_HTTP_TUNNEL"}, Usage: "reach bases over HTTP"},
		&cli.IntFlag{Name: "http-tunnel-listen-port", EnvVars: []string{"HTTP_TUNNEL_LISTEN_PORT"}, Value: 7777, Usage: "`PORT` for heartbeats over HTTP; 0: a free one"},
		&cli.StringFlag{Name: "http-tunnel-listen-host", EnvVars: []string{"HTTP_TUNNEL_LISTEN_HOST"}, Usage: "`HOST` to listen on for them", DefaultText: "all"},
		&cli.StringFlag{Name: "http-tunnel-proxy", EnvVars: []string{"HTTP_TUNNEL_PROXY"}, Usage: "`URL` of an HTTP proxy that connects to bases by CONNECT, for commands and probes", DefaultText: "no proxy"},
		&cli.StringFlag{Name: "http-tunnel-token", EnvVars: []string{"HTTP_TUNNEL_TOKEN"}, Usage: "`TOKEN` that bases must send over HTTP, as Authorization: Bearer TOKEN or as the first part of the path", DefaultText: "none"},
		&cli.StringFlag{Name: "http-tunnel-tls-cert", EnvVars: []string{"HTTP_TUNNEL_TLS_CERT"}, Usage: "`FILE` with the certificate for heartbeats over HTTPS", DefaultText: "plain HTTP"},
		text("http-tunnel-tls-key", "HTTP_TUNNEL_TLS_KEY", "", "`FILE` with its key"),
		&cli.StringFlag{Name: "http-tunnel-client-ca", EnvVars: []string{"HTTP_TUNNEL_CLIENT_CA"}, Usage: "`FILE` with the authority of the bases' certificates; a base must show one of its identity", DefaultText: "none is asked for"},
		&cli.StringFlag{Name: "base-networks", EnvVars: []string{"BASE_NETWORKS"}, Usage: "comma-separated `CIDRS` in which a base may report any address; if set, a base over MQTT must report an address in them", DefaultText: "over HTTP the address that its heartbeats come from; never loopback or link-local"},
		&cli.IntFlag{Name: "max-bases", EnvVars: []string{"MAX_BASES"}, Value: base.DefaultMaxBases, Usage: "`NUMBER` of bases that are known at most"},
		&cli.IntFlag{Name: "max-bases-per-address", EnvVars: []string{"MAX_BASES_PER_ADDRESS"}, Value: base.DefaultMaxPerAddress, Usage: "maximum `NUMBER` of bases that send heartbeats from one address over HTTP, such as the address of a proxy"},
		&cli.BoolFlag{Name: "enable-module-deployment-controller", EnvVars: []string{"ENABLE_MODULE_DEPLOYMENT_CONTROLLER", "ENABLE_MODULE_REPLICAS_SYNC_WITH_BASE"}, Usage: "set the replicas of peer Deployments, and answer bases that ask for their baseline"},
		&cli.BoolFlag{Name: "enable-module-view", EnvVars: []string{"ENABLE_MODULE_VIEW"}, Usage: "keep a Module for each module Pod, for kubectl get module"},
		&cli.BoolFlag{Name: "kubelet", EnvVars: []string{"KUBELET_PROXY_ENABLED"}, Usage: "serve kubectl logs and exec of module Pods"},
		text("kubelet-host", "KUBELET_HOST", "", "`HOST` where the API server reaches that, by the address InternalDNS of Nodes; it must not prefer InternalIP"),
		&cli.IntFlag{Name: "kubelet-port", EnvVars: []string{"KUBELET_PROXY_PORT"}, Value: 10250, Usage: "`PORT` for it; 0: a free one"},
		&cli.StringFlag{Name: "kubelet-tls-cert", EnvVars: []string{"KUBELET_TLS_CERT"}, Usage: "`FILE` with its certificate", DefaultText: "self-signed"},
		text("kubelet-tls-key", "KUBELET_TLS_KEY", "", "`FILE` with the key"),
		text("kubelet-client-ca", "KUBELET_CLIENT_CA", "", "`FILE` with the authority of the API server's client certificate"),
		text("report-hooks", "REPORT_HOOKS", "", "`URLS` of DingTalk robots that are told of failures, separated by ;, each with #SECRET behind it if the robot wants messages signed"),
		&cli.BoolFlag{Name: "report-hooks-allow-http", EnvVars: []string{"REPORT_HOOKS_ALLOW_HTTP"}, Usage: "take http URLs for these too, whose tokens others can read on the way"},
		text("failed-pods", "FAILED_PODS", "unowned", "`WHICH` Pods turn Failed when a newer version of their module serves: unowned, never or always"),
		&cli.BoolFlag{Name: "keep-same-version", EnvVars: []string{"KEEP_SAME_VERSION"}, Usage: "never replace a module when its image changes and BIZ_VERSION does not: that takes a gap"},
		&cli.BoolFlag{Name: "leave-pod-tolerations", EnvVars: []string{"LEAVE_POD_TOLERATIONS"}, Usage: "leave the tolerations of module Pods as they are: without this environment, and with a limit on unreachable Nodes"},
		text("env", "ENV", "dev", "`ENVIRONMENT` that this controller serves, a lower-case DNS label"),
		&cli.StringFlag{Name: "client-id", EnvVars: []string{"CLIENT_ID"}, Usage: "`ID` of this controller, unique in its environment", DefaultText: "random"},
		&cli.BoolFlag{Name: "is-cluster", EnvVars: []string{"IS_CLUSTER"}, Usage: "several controllers share the bases"},
		&cli.IntFlag{Name: "workload-max-level", EnvVars: []string{"WORKLOAD_MAX_LEVEL"}, Value: 3, Usage: "workload `LEVELS` by which controllers of a cluster share the bases"},
		&cli.IntFlag{Name: "vnode-worker-num", EnvVars: []string{"VNODE_WORKER_NUM"}, Value: 8, Usage: "`NUMBER` of modules that one base installs or uninstalls at once"},
		&cli.DurationFlag{Name: "lease-duration", EnvVars: []string{"LEASE_DURATION"}, Usage: "how long this controller may be silent before another one takes its bases", DefaultText: "15s"},
		&cli.DurationFlag{Name: "node-lease-duration", EnvVars: []string{"NODE_LEASE_DURATION"}, Usage: "for how long the Lease of a base's Node is good, renewed at half of it; less than kube-controller-manager's --node-monitor-grace-period", DefaultText: "40s"},
		&cli.DurationFlag{Name: "base-unreachable-after", EnvVars: []string{"BASE_UNREACHABLE_AFTER"}, Usage: "silence after which a base's Node turns Unknown", DefaultText: "25s"},
		&cli.DurationFlag{Name: "base-dead-after", EnvVars: []string{"BASE_DEAD_AFTER"}, Usage: "silence after which a base's Node is removed", DefaultText: "60s"},
		&cli.DurationFlag{Name: "reconnect-grace", EnvVars: []string{"RECONNECT_GRACE"}, Usage: "for how long after the broker is back the silence of a base does not count; negative: not at all", DefaultText: "128s"},
		&cli.IntFlag{Name: "mass-silence-percent", EnvVars: []string{"MASS_SILENCE_PERCENT"}, Value: 50, Usage: "how many `PERCENT` of the bases of a tunnel, silent at once, are taken for a fault of the way to them; 0: each is judged by itself"},
		&cli.IntFlag{Name: "mass-silence-min-bases", EnvVars: []string{"MASS_SILENCE_MIN_BASES"}, Value: 3, Usage: "with fewer than this `NUMBER` of bases each is judged by itself"},
		&cli.DurationFlag{Name: "mass-silence-window", EnvVars: []string{"MASS_SILENCE_WINDOW"}, Usage: "within which time they fell silent", DefaultText: "1m"},
		&cli.DurationFlag{Name: "mass-silence-at-most", EnvVars: []string{"MASS_SILENCE_AT_MOST"}, Usage: "for how long that is believed", DefaultText: "30m"},
		&cli.IntFlag{Name: "base-deletions-percent", EnvVars: []string{"BASE_DELETIONS_PERCENT"}, Value: 10, Usage: "how many `PERCENT` of the bases may be removed for their silence in a minute, one at least"},
		&cli.DurationFlag{Name: "health-interval", EnvVars: []string{"HEALTH_INTERVAL"}, Usage: "how often a base is asked for its health", DefaultText: "10s"},
		&cli.DurationFlag{Name: "list-interval", EnvVars: []string{"LIST_INTERVAL"}, Usage: "how often a base is asked for its modules", DefaultText: "15s"},
		&cli.DurationFlag{Name: "install-timeout", EnvVars: []string{"INSTALL_TIMEOUT"}, Usage: "how long a base may take to install a module", DefaultText: "5m"},
		&cli.DurationFlag{Name: "uninstall-timeout", EnvVars: []string{"UNINSTALL_TIMEOUT"}, Usage: "how long a base may take to uninstall a module", DefaultText: "1m"},
		&cli.IntFlag{Name: "install-attempts", EnvVars: []string{"INSTALL_ATTEMPTS"}, Usage: "how often a module is installed in vain", DefaultText: "6"},
		&cli.DurationFlag{Name: "module-drain", Aliases: []string{"drain"}, EnvVars: []string{"MODULE_DRAIN"}, Usage: "how long the module of a deleted Pod that was Ready stays installed; negative: not at all", DefaultText: "2s"},
		&cli.IntFlag{Name: "time-scale", EnvVars: []string{"TIME_SCALE"}, Value: 1, Usage: "divide every period by this `NUMBER`, 1 to 20: for tests of long outages"},
		&cli.StringFlag{Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"}, Usage: "`FILE` that reaches the Kubernetes API", DefaultText: "the cluster that this runs in"},
		text("metrics-addr", "METRICS_ADDR", ":9090", "`ADDRESS` that serves /metrics; empty: none"),
		text("health-addr", "HEALTH_ADDR", ":8081", "`ADDRESS` that serves /healthz, /readyz and /tunnelz; empty: none"),
		&cli.BoolFlag{Name: "profiling", EnvVars: []string{"PROFILING"}, Usage: "serve /debug/pprof beside the metrics"},
		text("log-level", "LOG_LEVEL", "info", "`LEVEL`: debug, info, warn or error"),
		text("log-format", "LOG_FORMAT", "text", "`FORMAT`: text or json"),
	}
}

func options(c *cli.Context) (controller.Options, error) {
	logger, err := newLogger(c.App.ErrWriter, c.String("log-level"), c.String("log-format"))
	if err != nil {
		return controller.Options{}, err
	}
	config, err := restConfig(c.String("kubeconfig"))
	if err != nil {
		return controller.Options{}, err
	}
	o := controller.Options{
		Config:           config,
		ClientID:         c.String("client-id"),
		Env:              c.String("env"),
		Cluster:          c.Bool("is-cluster"),
		WorkloadMaxLevel: c.Int("workload-max-level"),
		VNodeWorkers:     c.Int("vnode-worker-num"),
		LeaseDuration:    c.Duration("lease-duration"),
		NodeLease:        c.Duration("node-lease-duration"),
		UnreachableAfter: c.Duration("base-unreachable-after"),
		DeadAfter:        c.Duration("base-dead-after"),
		ReconnectGrace:   c.Duration("reconnect-grace"),
		MassSilence: controller.MassSilence{
			Percent: c.Int("mass-silence-percent"), AtLeast: c.Int("mass-silence-min-bases"),
			Window: c.Duration("mass-silence-window"), AtMost: c.Duration("mass-silence-at-most"),
		},
		DeletionsPercent: c.Int("base-deletions-percent"),
		BaseNetworks:     c.String("base-networks"),
		MaxBases:         c.Int("max-bases"),
		HealthInterval:   c.Duration("health-interval"),
		ListInterval:     c.Duration("list-interval"),
		InstallTimeout:   c.Duration("install-timeout"),
		UninstallTimeout: c.Duration("uninstall-timeout"),
		InstallAttempts:  c.Int("install-attempts"),
		Drain:            c.Duration("module-drain"),
		TimeScale:        c.Int("time-scale"),
		Deployments:      c.Bool("enable-module-deployment-controller"),
		ModuleView:       c.Bool("enable-module-view"),

		MaxBasesPerAddress:  c.Int("max-bases-per-address"),
		FailedPods:          c.String("failed-pods"),
		KeepSameVersion:     c.Bool("keep-same-version"),
		LeavePodTolerations: c.Bool("leave-pod-tolerations"),
		MetricsAddr:         c.String("metrics-addr"),
		HealthAddr:          c.String("health-addr"),
		Profiling:           c.Bool("profiling"),
		Logger:              logger,
	}
	if o.MassSilence.Percent == 0 {
		o.MassSilence.Percent = -1
	}
	for flag, env := range map[string]string{"workload-max-level": "WORKLOAD_MAX_LEVEL", "vnode-worker-num": "VNODE_WORKER_NUM", "max-bases": "MAX_BASES", "max-bases-per-address": "MAX_BASES_PER_ADDRESS", "time-scale": "TIME_SCALE"} {
		if c.Int(flag) < 1 {
			return o, fmt.Errorf("%s is %d: it must be at least 1", env, c.Int(flag))
		}
	}
	if o.ClientID == "" {
		o.ClientID = string(uuid.NewUUID())
	}
	if o.ReportHooks, err = report.ParseHooks(c.String("report-hooks"), c.Bool("report-hooks-allow-http")); err != nil {
		return o, fmt.Errorf("REPORT_HOOKS: %w", err)
	}
	if c.Bool("kubelet") {
		if o.Kubelet, err = kubeletOptions(c); err != nil {
			return o, err
		}
	}
	if c.Bool("enable-http-tunnel") {
		if o.HTTP, err = httpOptions(c, logger); err != nil {
			return o, err
		}
	}
	if c.Bool("enable-mqtt-tunnel") {
		o.MQTT, err = mqttOptions(c, logger)
	}
	return o, err
}

func httpOptions(c *cli.Context, logger *slog.Logger) (*controller.HTTPOptions, error) {
	port := c.Int("http-tunnel-listen-port")
	if port < 0 || port > 65535 {
		return nil, fmt.Errorf("HTTP_TUNNEL_LISTEN_PORT is %d: it must be between 0 and 65535", port)
	}
	h := &controller.HTTPOptions{Addr: net.JoinHostPort(c.String("http-tunnel-listen-host"), strconv.Itoa(port)), Token: c.String("http-tunnel-token")}
	var err error
	if h.Proxy, err = proxyURL(c.String("http-tunnel-proxy")); err != nil {
		return nil, err
	}
	h.TLS, err = serverTLS(c.String("http-tunnel-tls-cert"), c.String("http-tunnel-tls-key"), c.String("http-tunnel-client-ca"), logger)
	return h, err
}

// serverTLS is nil when no file is named.
func serverTLS(crt, key, ca string, logger *slog.Logger) (*tls.Config, error) {
	switch {
	case crt == "" && key == "" && ca == "":
		return nil, nil
	case crt == "" || key == "":
		return nil, errors.New("HTTP_TUNNEL_TLS_CERT and HTTP_TUNNEL_TLS_KEY go together, and HTTP_TUNNEL_CLIENT_CA needs both")
	}
	template := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		template.ClientAuth = tls.RequireAndVerifyClientCert
	}
	source, err := certfile.Open(template, certfile.Files{
		Cert: certfile.File{Setting: "HTTP_TUNNEL_TLS_CERT", Path: crt}, Key: certfile.File{Setting: "HTTP_TUNNEL_TLS_KEY", Path: key},
		CA: certfile.File{Setting: "HTTP_TUNNEL_CLIENT_CA", Path: ca},
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

func kubeletOptions(c *cli.Context) (*controller.KubeletOptions, error) {
	k := &controller.KubeletOptions{
		Host: c.String("kubelet-host"), Port: c.Int("kubelet-port"),
		CertFile: c.String("kubelet-tls-cert"), KeyFile: c.String("kubelet-tls-key"), ClientCAFile: c.String("kubelet-client-ca"),
	}
	switch {
	case k.Host == "":
		return nil, errors.New("KUBELET_HOST is empty: name the address at which the API server reaches this controller")
	case k.Port < 0 || k.Port > 65535:
		return nil, fmt.Errorf("KUBELET_PROXY_PORT is %d: it must be between 0 and 65535", k.Port)
	case k.ClientCAFile == "":
		return nil, errors.New("KUBELET_CLIENT_CA is empty: name the file with the authority of the API server's client certificate")
	}
	return k, nil
}

func mqttOptions(c *cli.Context, logger *slog.Logger) (*controller.MQTTOptions, error) {
	m := &controller.MQTTOptions{
		Broker: c.String("mqtt-broker"), Port: c.Int("mqtt-port"),
		Username: c.String("mqtt-username"), Password: c.String("mqtt-password"),
		ClientPrefix: c.String("mqtt-client-prefix"), KeepRetained: c.Bool("keep-retained-commands"),
	}
	if m.Port < 0 || m.Port > 65535 {
		return nil, fmt.Errorf("MQTT_PORT is %d: it must be between 1 and 65535", m.Port)
	}
	var err error
	m.TLS, err = clientTLS(c.String("mqtt-ca-path"), c.String("mqtt-client-crt-path"), c.String("mqtt-client-key-path"), logger)
	return m, err
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
		Cert: certfile.File{Setting: "MQTT_CLIENT_CRT_PATH", Path: crt}, Key: certfile.File{Setting: "MQTT_CLIENT_KEY_PATH", Path: key},
		CA: certfile.File{Setting: "MQTT_CA_PATH", Path: ca},
	}, logger)
	if err != nil {
		return nil, err
	}
	return source.Config, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the Kubernetes API (KUBECONFIG=%q): %w", kubeconfig, err)
	}
	return config, nil
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
