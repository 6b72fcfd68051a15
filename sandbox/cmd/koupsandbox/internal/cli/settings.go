package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const brokerPassword = "KOUPSANDBOX_BROKER_PASSWORD" //nolint:gosec // the name of a variable

const (
	basesCategory      = "BASES"
	brokerCategory     = "BROKER"
	clusterCategory    = "CLUSTER"
	controllerCategory = "CONTROLLER"
)

// A setting is a flag of the commands that bring a sandbox up, and the field of the configuration that it sets.
type setting struct {
	field string // path of JSON names, such as spec.bases.count
	flag  cli.Flag
}

// sandboxSettings are the flags of up for its own sandbox: scenarios bring bases of their own.
func sandboxSettings() []setting {
	return []setting{
		{"metadata.name", nameOf("`NAME` of the sandbox, a DNS label")},
		{"spec.bases.count", &cli.IntFlag{Name: basesFlag, Usage: "`N` simulated bases, 1 to 20000", Value: 3,
			Category: basesCategory, EnvVars: []string{"KOUPSANDBOX_BASES"}}},
		{"spec.bases.name", &cli.StringFlag{Name: "base-name", Usage: "`NAME` that the bases report", Value: "base",
			Category: basesCategory}},
		{"spec.bases.version",
			&cli.StringFlag{Name: "base-version", Usage: "`VERSION` that the bases report", Value: "1.0.0",
				Category: basesCategory}},
		{"spec.bases.clusterName",
			&cli.StringFlag{Name: "base-cluster-name", Usage: "cluster `NAME` that the bases report",
				DefaultText: "the name of the sandbox", Category: basesCategory}},
	}
}

// settings are the flags of every command that can bring a sandbox up.
func settings() []setting {
	return []setting{
		{"spec.bases.runtime",
			&cli.StringFlag{Name: "base-runtime",
				Usage: "where bases run: process; cluster, in Pods of kind or existing", Value: "process",
				Category: basesCategory}},
		{"spec.bases.perPod", &cli.IntFlag{Name: "bases-per-pod", Aliases: []string{"per-pod"},
			Usage: "`N` bases in each Pod of the runtime cluster, 1 to 2000; with 1, each base has the " +
				"address of its Pod", DefaultText: "500", Category: basesCategory}},
		{"spec.bases.image", &cli.StringFlag{Name: "base-image", Usage: "`IMAGE` of those Pods",
			DefaultText: "with kind one of the program fakebase", Category: basesCategory}},
		{"spec.bases.agentImage",
			&cli.StringFlag{Name: "agent-image",
				Usage:       "`IMAGE` of the Pod that sends requests to them, in a cluster that you have",
				DefaultText: "none, they go through the API server", Category: basesCategory}},
		{"spec.env", &cli.StringFlag{Name: "env", Usage: "`ENV` in topics and labels",
			DefaultText: "dev; with --broker or an existing cluster, a generated name",
			EnvVars:     []string{"KOUPSANDBOX_ENV"}}},
		{"spec.provider", &cli.StringFlag{Name: "provider",
			Usage: "where the Kubernetes API comes from: auto, embedded, kind or existing", Value: "auto",
			Category: clusterCategory, EnvVars: []string{"KOUPSANDBOX_PROVIDER"}}},
		{"spec.kind.engine", engine()},
		{"spec.kind.nodes", &cli.IntFlag{Name: "nodes", Usage: "`N` nodes of the provider kind, 1 to 10", Value: 1,
			Category: clusterCategory}},
		{"spec.kind.image", &cli.StringFlag{Name: "image", Usage: "`IMAGE` of those nodes", DefaultText: "that of kind",
			Category: clusterCategory}},
		{"spec.kind.version", &cli.StringFlag{Name: "k8s-version",
			Usage: "`VERSION` of Kubernetes of those nodes, such as v1.36.3", Category: clusterCategory}},
		{"spec.controller.location",
			&cli.StringFlag{Name: "controller",
				Usage:       "where the module controller runs: cluster, or host, where it can be debugged",
				DefaultText: "cluster with kind, else host", Category: controllerCategory}},
		{"spec.controller.image",
			&cli.StringFlag{Name: "controller-image", Usage: "`IMAGE` of the controllers in a cluster that you have",
				Category: controllerCategory}},
		{"spec.controller.replicas",
			&cli.IntFlag{Name: "controllers", Usage: "`N` module controllers that share the bases, 1 to 9", Value: 1,
				Category: controllerCategory}},
		{"spec.cluster.context",
			&cli.StringFlag{Name: "context", Usage: "`CONTEXT` of the provider existing; it has no default",
				Category: clusterCategory}},
		{"spec.cluster.kubeconfig",
			&cli.StringFlag{Name: "kubeconfig", Usage: "`FILE` with that context", DefaultText: "~/.kube/config",
				Category: clusterCategory}},
		{"spec.cluster.consent",
			&cli.BoolFlag{Name: "i-know-what-i-do", Usage: "use a cluster that does not bear the sandbox's mark yet",
				Category: clusterCategory}},
		{"spec.api.listen", &cli.StringFlag{Name: "api-listen",
			Usage:       "`ADDRESS:PORT` of the Kubernetes API of the provider embedded",
			DefaultText: "127.0.0.1 and any free port", Category: clusterCategory,
			EnvVars: []string{"KOUPSANDBOX_API_LISTEN"}}},
		{"spec.durable", &cli.BoolFlag{Name: "durable", Usage: "let etcd write to disk safely, which is slower",
			Category: clusterCategory}},
		{"spec.speed", &cli.IntFlag{Name: "speed",
			Usage: "divide every period of the system by `N`, 1 to 20, to test long outages; with the " +
				"provider embedded", Value: 1}},
		{"spec.broker.tls", &cli.BoolFlag{Name: "broker-tls", Usage: "let the broker's port on this machine speak TLS",
			Category: brokerCategory}},
		{"spec.broker.url", &cli.StringFlag{Name: "broker",
			Usage:       "`URL` of a broker that you have, mqtt://HOST:PORT or mqtts://HOST:PORT",
			DefaultText: "one of the sandbox's own", Category: brokerCategory,
			EnvVars: []string{"KOUPSANDBOX_BROKER"}}},
		{"spec.broker.username",
			&cli.StringFlag{Name: "broker-username", Usage: "`NAME` for it", Category: brokerCategory,
				EnvVars: []string{"KOUPSANDBOX_BROKER_USERNAME"}}},
		{"spec.broker.passwordFile",
			&cli.StringFlag{Name: "broker-password-file", Usage: "`FILE` with the password",
				DefaultText: "$" + brokerPassword, Category: brokerCategory}},
		{"spec.broker.caFile",
			&cli.StringFlag{Name: "broker-ca", Usage: "`FILE` with the authority of its certificate",
				DefaultText: "those of the system", Category: brokerCategory}},
		{"spec.broker.certFile",
			&cli.StringFlag{Name: "broker-cert", Usage: "`FILE` with a client certificate", Category: brokerCategory}},
		{"spec.broker.keyFile",
			&cli.StringFlag{Name: "broker-key", Usage: "`FILE` with the key of that one", Category: brokerCategory}},
		{"spec.broker.consent",
			&cli.BoolFlag{Name: "broker-consent", Usage: "use an --env of it in which somebody else was heard",
				Category: brokerCategory}},
		{"spec.wait", &cli.DurationFlag{Name: "wait", Usage: "`DURATION` that each step may take",
			DefaultText: "1m, with kind and for Pods 5m, 15s more for each thousand bases, in a cluster " +
				"that you have 4m", EnvVars: []string{"KOUPSANDBOX_WAIT"}}},
	}
}

func flagsOfSettings(list []setting) []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: "config", Usage: "`FILE` with settings, kind: Sandbox",
		EnvVars: []string{"KOUPSANDBOX_CONFIG"}}}
	for _, s := range list {
		flags = append(flags, s.flag)
	}
	return flags
}

// configFrom merges the flags of a command, the file (empty = none), and the defaults, in this order. presets sets defaults of
// the command (nil = none). countIsDefault reports whether neither flag nor file give the number of bases. Nothing is started
// on a mistake in any of them.
func configFrom(c *cli.Context, file string, presets func(*v1alpha1.Spec)) (config *v1alpha1.Sandbox,
	countIsDefault bool, err error) {
	config, origins := &v1alpha1.Sandbox{}, &v1alpha1.Origins{}
	var fileErr error
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, false, fmt.Errorf("reading the settings: %w", err)
		}
		config, origins, fileErr = v1alpha1.Decode(file, data)
	}
	for _, s := range slices.Concat(sandboxSettings(), settings()) {
		name := s.flag.Names()[0]
		if _, several := c.Value(name).(string); several && name == basesFlag {
			continue // a flag of bench with the same name
		}
		switch {
		case c.IsSet(name):
			setField(config, s.field, c.Value(name))
			origins.SetFlag(s.field, "--"+name)
		case flagNamed(c.Command.Flags, name) != nil:
			origins.SuggestFlag(s.field, "--"+name)
		}
	}
	if presets != nil {
		presets(&config.Spec)
	}
	if err := v1alpha1.Complete(config, origins, fileErr); err != nil {
		return nil, false, usageError{fmt.Errorf("the settings cannot be used:\n%w", err)}
	}
	return config, !origins.IsSet("spec.bases.count"), nil
}

// setField sets the field of a configuration at a path of JSON names to the value of a flag. Pointers on the way are
// allocated. It panics if the path or the type of the value does not fit, which no input can cause.
func setField(config *v1alpha1.Sandbox, path string, value any) {
	field := reflect.ValueOf(config).Elem()
	for name := range strings.SplitSeq(path, ".") {
		field = field.FieldByNameFunc(func(goName string) bool {
			f, _ := field.Type().FieldByName(goName)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
	}
	if d, ok := field.Addr().Interface().(*metav1.Duration); ok {
		field = reflect.ValueOf(&d.Duration).Elem()
	}
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
}
