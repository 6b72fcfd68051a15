package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// brokerPassword is the variable with the password for the user's broker.
const brokerPassword = "KOUPSANDBOX_BROKER_PASSWORD" //nolint:gosec // the name of a variable

func (s *commands) up() *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring a sandbox up, or one that is up in line with the settings",
		Description: `Starts a Kubernetes control plane, an MQTT broker, simulated bases and the module
controller, and returns when every base is a Ready Node. Flags go before the
settings of --config, which go before the defaults.`,
		Flags: slices.Concat([]cli.Flag{
			nameOf("`NAME` of the sandbox, a DNS label"),
			&cli.IntFlag{Name: basesFlag, Usage: "`N` simulated bases, 1 to 20000", Value: 3, EnvVars: []string{"KOUPSANDBOX_BASES"}},
			&cli.StringFlag{Name: "base-name", Usage: "`NAME` that the bases report", Value: "base"},
			&cli.StringFlag{Name: "base-version", Usage: "`VERSION` that the bases report", Value: "1.0.0"},
			&cli.StringFlag{Name: "base-cluster-name", Usage: "cluster `NAME` that the bases report", DefaultText: "the name of the sandbox"},
		}, settings(), []cli.Flag{
			&cli.BoolFlag{Name: boardFlag, Usage: "then serve the board, until Ctrl-C; the sandbox stays up"},
			&cli.BoolFlag{Name: "foreground", Usage: "stay until Ctrl-C, then take the sandbox down", EnvVars: []string{"KOUPSANDBOX_FOREGROUND"}},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print failures only"},
			output(formatJSON, formatYAML),
		}),
		Action: alone(s.runUp),
	}
}

// settings are the flags of every command that brings a sandbox up; configOf reads them.
func settings() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "`FILE` with settings, kind: Sandbox", EnvVars: []string{"KOUPSANDBOX_CONFIG"}},
		&cli.StringFlag{Name: "base-runtime", Usage: "where bases run: process; cluster, in Pods of kind or existing", Value: "process"},
		&cli.IntFlag{Name: "bases-per-pod", Aliases: []string{"per-pod"}, Usage: "`N` bases in each Pod of the runtime cluster, 1 to 2000; with 1, each base has the address of its Pod", DefaultText: "500"},
		&cli.StringFlag{Name: "base-image", Usage: "`IMAGE` of those Pods", DefaultText: "with kind one of the program fakebase"},
		&cli.StringFlag{Name: "agent-image", Usage: "`IMAGE` of the Pod that sends requests to them, in a cluster that you have", DefaultText: "none, they go through the API server"},
		&cli.StringFlag{Name: "env", Usage: "`ENV` in topics and labels", DefaultText: "dev; with --broker or an existing cluster, a generated name", EnvVars: []string{"KOUPSANDBOX_ENV"}},
		&cli.StringFlag{Name: "provider", Usage: "where the Kubernetes API comes from: auto, embedded, kind or existing", Value: "auto",
			EnvVars: []string{"KOUPSANDBOX_PROVIDER"}},
		engine(),
		&cli.IntFlag{Name: "nodes", Usage: "`N` nodes of the provider kind, 1 to 10", Value: 1},
		&cli.StringFlag{Name: "image", Usage: "`IMAGE` of those nodes", DefaultText: "that of kind"},
		&cli.StringFlag{Name: "k8s-version", Usage: "`VERSION` of Kubernetes of those nodes, such as v1.36.3"},
		&cli.StringFlag{Name: "controller", Usage: "where the module controller runs: cluster, or host, where it can be debugged", DefaultText: "cluster with kind, else host"},
		&cli.StringFlag{Name: "controller-image", Usage: "`IMAGE` of the controllers in a cluster that you have"},
		&cli.StringFlag{Name: "context", Usage: "`CONTEXT` of the provider existing; it has no default"},
		&cli.StringFlag{Name: "kubeconfig", Usage: "`FILE` with that context", DefaultText: "~/.kube/config"},
		&cli.BoolFlag{Name: "i-know-what-i-do", Usage: "use a cluster that does not bear the sandbox's mark yet"},
		&cli.StringFlag{Name: "api-listen", Usage: "`ADDRESS:PORT` of the Kubernetes API of the provider embedded", DefaultText: "127.0.0.1 and any free port",
			EnvVars: []string{"KOUPSANDBOX_API_LISTEN"}},
		&cli.IntFlag{Name: "speed", Usage: "divide every period of the system by `N`, 1 to 20, to test long outages; with the provider embedded", Value: 1},
		&cli.BoolFlag{Name: "durable", Usage: "let etcd write to disk safely, which is slower"},
		&cli.BoolFlag{Name: "broker-tls", Usage: "let the broker's port on this machine speak TLS"},
		&cli.StringFlag{Name: "broker", Usage: "`URL` of a broker that you have, mqtt://HOST:PORT or mqtts://HOST:PORT", DefaultText: "one of the sandbox's own",
			EnvVars: []string{"KOUPSANDBOX_BROKER"}},
		&cli.StringFlag{Name: "broker-username", Usage: "`NAME` for it", EnvVars: []string{"KOUPSANDBOX_BROKER_USERNAME"}},
		&cli.StringFlag{Name: "broker-password-file", Usage: "`FILE` with the password", DefaultText: "$" + brokerPassword},
		&cli.StringFlag{Name: "broker-ca", Usage: "`FILE` with the authority of its certificate", DefaultText: "those of the system"},
		&cli.StringFlag{Name: "broker-cert", Usage: "`FILE` with a client certificate"},
		&cli.StringFlag{Name: "broker-key", Usage: "`FILE` with the key of that one"},
		&cli.BoolFlag{Name: "broker-consent", Usage: "use an --env of it in which somebody else was heard"},
		&cli.IntFlag{Name: "controllers", Usage: "`N` module controllers that share the bases, 1 to 9", Value: 1},
		&cli.DurationFlag{Name: "wait", Usage: "how `LONG` each step may take", DefaultText: "1m, with kind and for Pods 5m, 15s more for each thousand bases, in a cluster that you have 4m", EnvVars: []string{"KOUPSANDBOX_WAIT"}},
	}
}

func (s *commands) runUp(c *cli.Context) error { return s.bringUp(c, nil) }

// bringUp brings up what the flags and the file say, with what presets say where neither does.
func (s *commands) bringUp(c *cli.Context, presets func(*v1alpha1.Spec)) error {
	config, keepBases, err := configFrom(c, c.String("config"), presets)
	if err != nil {
		return err
	}
	folder, err := home(c)
	if err != nil {
		return err
	}
	printer := progress.NewPrinter(s.Err, progress.PrinterOptions{Terminal: s.Terminal, Width: s.Width, Quiet: c.Bool("quiet")})
	options := s.upOptions(c, folder, config, printer)
	options.KeepBases, options.InProcess = keepBases, c.Bool("foreground")
	if options.InProcess {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	start := time.Now()
	up, err := sandbox.Up(c.Context, options)
	printer.Close()
	if err != nil {
		return err
	}
	defer up.Close()
	took := time.Since(start)
	err = s.show(c, up.Result, func(bool) {
		if !c.Bool("quiet") {
			s.tellUp(up, took)
		}
	})
	if err != nil {
		return err
	}
	if c.Bool(boardFlag) {
		err = s.boardOf(c, up)
	}
	if err != nil || !options.InProcess {
		return err
	}
	say(s.Err, "Ctrl-C takes it down.\n")
	err = up.Wait(c.Context)
	return endForeground(c, folder, up.Name, err)
}

// upOptions brings a sandbox up as the user's command says.
func (s *commands) upOptions(c *cli.Context, folder string, config *v1alpha1.Sandbox, printer *progress.Printer) sandbox.Options {
	return sandbox.Options{
		Home: folder, Config: config, BrokerPassword: os.Getenv(brokerPassword), Programs: sandbox.FindPrograms(s.Self, c.String(binFlag)),
		Progress: printer.Event,
	}
}

// tellUp says what there is now and which command to type next.
func (s *commands) tellUp(up *sandbox.Sandbox, took time.Duration) {
	status := up.Result.Status
	switch {
	case !up.Result.Already:
		say(s.Out, "Sandbox %q is up after %.1fs", up.Name, took.Seconds())
	case len(up.Result.Changes) == 0:
		say(s.Out, "Sandbox %q was up already; nothing had to be done", up.Name)
	default:
		say(s.Out, "Sandbox %q was up already", up.Name)
	}
	say(s.Out, ": Kubernetes %s (%s), %s, %s.\n", plain.Text(status.Version), status.Provider, plain.Count(status.BaseCount, "base"), brokerText(status.Broker))
	for _, change := range up.Result.Changes {
		say(s.Out, "  %s\n", plain.Text(change))
	}
	say(s.Out, "\n  export KUBECONFIG=%s\n  kubectl get nodes\n\nTake it down with: koupsandbox down%s\n", shellescape.Quote(up.Kubeconfig), nameArgument(up.Name))
}

// brokerText says which broker it is.
func brokerText(b control.Broker) string {
	if b.URL == "" {
		return "broker on " + b.Addr
	}
	return fmt.Sprintf("broker %s by way of %s", b.URL, b.Addr)
}

func nameArgument(name string) string {
	if name == v1alpha1.DefaultName {
		return ""
	}
	return " --name " + name
}

// configOf puts file, flags and defaults together. Nothing is started on a
// mistake in any of them. It tells too whether the number of bases is but the
// default.
func configOf(c *cli.Context) (config *v1alpha1.Sandbox, defaultBases bool, err error) {
	return configFrom(c, c.String("config"), nil)
}

// configFrom is configOf with another file than that of --config, empty = none, and with defaults of a
// command's own, nil = none, which are set where neither file nor flag says otherwise.
func configFrom(c *cli.Context, file string, presets func(*v1alpha1.Spec)) (config *v1alpha1.Sandbox, defaultBases bool, err error) {
	config, origins := &v1alpha1.Sandbox{}, &v1alpha1.Origins{}
	var fileErr error
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, false, fmt.Errorf("reading the settings: %w", err)
		}
		config, origins, fileErr = v1alpha1.Decode(file, data)
	}
	spec := &config.Spec
	for _, setting := range []struct {
		flag, field string
		set         func(flag string)
	}{
		{nameFlag, "metadata.name", func(f string) { config.Metadata.Name = c.String(f) }},
		{basesFlag, "spec.bases.count", func(f string) { n := c.Int(f); spec.Bases.Count = &n }},
		{"base-name", "spec.bases.name", func(f string) { spec.Bases.Name = c.String(f) }},
		{"base-version", "spec.bases.version", func(f string) { spec.Bases.Version = c.String(f) }},
		{"base-cluster-name", "spec.bases.clusterName", func(f string) { spec.Bases.ClusterName = c.String(f) }},
		{"base-runtime", "spec.bases.runtime", func(f string) { spec.Bases.Runtime = v1alpha1.BaseRuntime(c.String(f)) }},
		{"bases-per-pod", "spec.bases.perPod", func(f string) { spec.Bases.PerPod = c.Int(f) }},
		{"base-image", "spec.bases.image", func(f string) { spec.Bases.Image = c.String(f) }},
		{"agent-image", "spec.bases.agentImage", func(f string) { spec.Bases.AgentImage = c.String(f) }},
		{"env", "spec.env", func(f string) { spec.Env = c.String(f) }},
		{"provider", "spec.provider", func(f string) { spec.Provider = v1alpha1.Provider(c.String(f)) }},
		{engineFlag, "spec.kind.engine", func(f string) { spec.Kind.Engine = v1alpha1.Engine(c.String(f)) }},
		{"nodes", "spec.kind.nodes", func(f string) { spec.Kind.Nodes = c.Int(f) }},
		{"image", "spec.kind.image", func(f string) { spec.Kind.Image = c.String(f) }},
		{"k8s-version", "spec.kind.version", func(f string) { spec.Kind.Version = c.String(f) }},
		{"controller", "spec.controller.location", func(f string) { spec.Controller.Location = v1alpha1.Location(c.String(f)) }},
		{"controller-image", "spec.controller.image", func(f string) { spec.Controller.Image = c.String(f) }},
		{"context", "spec.cluster.context", func(f string) { spec.Cluster.Context = c.String(f) }},
		{"kubeconfig", "spec.cluster.kubeconfig", func(f string) { spec.Cluster.Kubeconfig = c.String(f) }},
		{"i-know-what-i-do", "spec.cluster.consent", func(f string) { spec.Cluster.Consent = c.Bool(f) }},
		{"api-listen", "spec.api.listen", func(f string) { spec.API.Listen = c.String(f) }},
		{"speed", "spec.speed", func(f string) { spec.Speed = c.Int(f) }},
		{"durable", "spec.durable", func(f string) { spec.Durable = c.Bool(f) }},
		{"broker-tls", "spec.broker.tls", func(f string) { spec.Broker.TLS = c.Bool(f) }},
		{"broker", "spec.broker.url", func(f string) { spec.Broker.URL = c.String(f) }},
		{"broker-username", "spec.broker.username", func(f string) { spec.Broker.Username = c.String(f) }},
		{"broker-password-file", "spec.broker.passwordFile", func(f string) { spec.Broker.PasswordFile = c.String(f) }},
		{"broker-ca", "spec.broker.caFile", func(f string) { spec.Broker.CAFile = c.String(f) }},
		{"broker-cert", "spec.broker.certFile", func(f string) { spec.Broker.CertFile = c.String(f) }},
		{"broker-key", "spec.broker.keyFile", func(f string) { spec.Broker.KeyFile = c.String(f) }},
		{"broker-consent", "spec.broker.consent", func(f string) { spec.Broker.Consent = c.Bool(f) }},
		{"controllers", "spec.controller.replicas", func(f string) { n := c.Int(f); spec.Controller.Replicas = &n }},
		{"wait", "spec.wait", func(f string) { spec.Wait = &metav1.Duration{Duration: c.Duration(f)} }},
	} {
		if _, several := c.Value(setting.flag).(string); several && setting.flag == basesFlag {
			continue // those of bench are the scenarios', not the sandbox's
		}
		switch flag := "--" + setting.flag; {
		case c.IsSet(setting.flag):
			setting.set(setting.flag)
			origins.Flag(setting.field, flag)
		case flagNamed(c.Command.Flags, setting.flag) != nil:
			origins.Offer(setting.field, flag)
		}
	}
	if presets != nil {
		presets(spec)
	}
	if err := v1alpha1.Complete(config, origins, fileErr); err != nil {
		return nil, false, usageError{fmt.Errorf("the settings cannot be used:\n%w", err)}
	}
	return config, !origins.Given("spec.bases.count"), nil
}

func (s *commands) down() *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "stop a sandbox and remove its state folder",
		Flags: []cli.Flag{
			theName(),
			&cli.BoolFlag{Name: "keep-logs", Usage: "leave the logs in the state folder"},
			&cli.BoolFlag{Name: "force", Usage: "give up what cannot be removed, in a cluster that is gone for good, say"},
		},
		Action: alone(func(c *cli.Context) error {
			folder, name, err := target(c)
			if err != nil {
				return err
			}
			o := sandbox.DownOptions{Home: folder, Name: name, KeepLogs: c.Bool("keep-logs")}
			if c.Bool("force") {
				o.Force = func(left error) { say(s.Err, "This could not be removed, and is given up: %v\n", left) }
			}
			start := time.Now()
			was, err := sandbox.Down(c.Context, o)
			switch {
			case err != nil:
				return err
			case was:
				say(s.Out, "Sandbox %q is down after %.1fs.\n", name, time.Since(start).Seconds())
			default:
				say(s.Out, "Sandbox %q was not up; nothing had to be done.\n", name)
			}
			return nil
		}),
	}
}

// endForeground removes what a sandbox in this process leaves behind. Ctrl-C is
// how it is meant to end, and has ended the command's own context.
func endForeground(c *cli.Context, folder, name string, err error) error {
	ctx := context.WithoutCancel(c.Context)
	_, downErr := sandbox.Down(ctx, sandbox.DownOptions{Home: folder, Name: name})
	return errors.Join(err, downErr)
}
