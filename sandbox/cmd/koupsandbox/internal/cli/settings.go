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

// setting describes a flag of the commands that create a sandbox, and the configuration field that the flag sets.
type setting struct {
	field string // path of JSON names, such as spec.bases.count
	flag  cli.Flag
}

// sandboxSettings returns the settings that only the command up accepts. Other commands that create a sandbox do not
// accept them, because scenarios and fuzz schedules define their own bases.
func sandboxSettings() []setting {
	return []setting{
		{"metadata.name", sandboxNameFlag()},
		{"spec.bases[0].count", &cli.IntFlag{Name: basesFlag, Usage: "`N`: number of simulated bases, 1 to 20000",
			Value:    3,
			Category: basesCategory, EnvVars: []string{"KOUPSANDBOX_BASES"}}},
		{"spec.bases[0].baseName", &cli.StringFlag{Name: "base-name", Usage: "`NAME`: application name of the bases",
			Value:    "base",
			Category: basesCategory}},
		{"spec.bases[0].version",
			&cli.StringFlag{Name: "base-version", Usage: "`VERSION`: version of the bases", Value: "1.0.0",
				Category: basesCategory}},
		{"spec.bases[0].clusterName",
			&cli.StringFlag{Name: "base-cluster-name", Usage: "`NAME`: cluster name of the bases",
				DefaultText: "the name of the sandbox", Category: basesCategory}},
	}
}

// settings returns the settings that all commands that create a sandbox accept.
func settings() []setting {
	return []setting{
		{"spec.fleet.runtime",
			&cli.StringFlag{Name: "base-runtime",
				Usage: "`RUNTIME`: where bases run: process (in the daemon) or cluster (in Pods; " +
					"requires provider kind or existing)", Value: "process",
				Category: basesCategory}},
		{"spec.fleet.perPod", &cli.IntFlag{Name: "bases-per-pod", Aliases: []string{"per-pod"},
			Usage: "`N`: number of bases per Pod with --base-runtime cluster, 1 to 2000; with 1, a base uses the IP " +
				"address of its Pod", DefaultText: "500", Category: basesCategory}},
		{"spec.fleet.image", &cli.StringFlag{Name: "base-image", Usage: "`IMAGE`: container image of the base Pods",
			DefaultText: "an image built from the local fakebase binary with provider kind; required with provider " +
				"existing", Category: basesCategory}},
		{"spec.fleet.agentImage",
			&cli.StringFlag{Name: "agent-image",
				Usage:       "`IMAGE`: container image of the Pod that sends requests to bases in an existing cluster",
				DefaultText: "none; requests pass through the API server", Category: basesCategory}},
		{"spec.env", &cli.StringFlag{Name: "env",
			Usage:       "`ENV`: environment name of bases and controllers, used in MQTT topics and labels",
			DefaultText: "dev; with --broker or an existing cluster, a generated name",
			Category:    sandboxCategory, EnvVars: []string{"KOUPSANDBOX_ENV"}}},
		{"spec.provider", &cli.StringFlag{Name: "provider",
			Usage: "`PROVIDER`: provider of the Kubernetes cluster: auto, embedded, kind or existing", Value: "auto",
			Category: clusterCategory, EnvVars: []string{"KOUPSANDBOX_PROVIDER"}}},
		{"spec.kind.engine", newEngineFlag()},
		{"spec.kind.nodes", &cli.IntFlag{Name: "nodes", Usage: "`N`: number of nodes of the kind cluster, 1 to 10",
			Value:    1,
			Category: clusterCategory}},
		{"spec.kind.image", &cli.StringFlag{Name: "image", Usage: "`IMAGE`: node image of the kind cluster",
			DefaultText: "the default image of kind",
			Category:    clusterCategory}},
		{"spec.kind.version", &cli.StringFlag{Name: "k8s-version",
			Usage:    "`VERSION`: Kubernetes version of the kind cluster, for example v1.37.2",
			Category: clusterCategory}},
		{"spec.controller.location",
			&cli.StringFlag{Name: "controller",
				Usage: "`LOCATION`: where the module controller runs: cluster (in Pods) or host " +
					"(on this machine)",
				DefaultText: "cluster with kind, otherwise host", Category: controllerCategory}},
		{"spec.controller.image",
			&cli.StringFlag{Name: "controller-image",
				Usage:    "`IMAGE`: container image of the module controller in an existing cluster",
				Category: controllerCategory}},
		{"spec.controller.replicas",
			&cli.IntFlag{Name: "controllers", Usage: "`N`: number of module controllers, 1 to 9; they share the bases",
				Value:    1,
				Category: controllerCategory}},
		{"spec.cluster.context",
			&cli.StringFlag{Name: "context",
				Usage:    "`CONTEXT`: kubeconfig context of the existing cluster; required with --provider existing",
				Category: clusterCategory}},
		{"spec.cluster.kubeconfig",
			&cli.StringFlag{Name: "kubeconfig", Usage: "`FILE`: kubeconfig of the existing cluster",
				DefaultText: "~/.kube/config",
				Category:    clusterCategory}},
		{"spec.cluster.consent",
			&cli.BoolFlag{Name: "allow-unmarked-cluster",
				Usage:    "use an existing cluster that does not have the sandbox's ownership marker",
				Category: clusterCategory}},
		{"spec.api.listen", &cli.StringFlag{Name: "api-listen",
			Usage:       "`ADDRESS:PORT`: address on which the Kubernetes API server listens, with provider embedded",
			DefaultText: "127.0.0.1 and a free port", Category: clusterCategory,
			EnvVars: []string{"KOUPSANDBOX_API_LISTEN"}}},
		{"spec.durable", &cli.BoolFlag{Name: "durable",
			Usage:    "sync the writes of etcd to disk, so that data survives a crash; slower",
			Category: clusterCategory}},
		{"spec.speed", &cli.IntFlag{Name: "speed",
			Usage: "`N`: time scale, 1 to 20, to test long outages: divides all timeouts and intervals by N; " +
				"requires --provider embedded", Value: 1, Category: sandboxCategory}},
		{"spec.broker.tls", &cli.BoolFlag{Name: "broker-tls",
			Usage: "use TLS on the MQTT port that the sandbox opens " +
				"on this machine",
			Category: brokerCategory}},
		{"spec.broker.url", &cli.StringFlag{Name: "broker",
			Usage:       "`URL`: URL of an external broker, mqtt://HOST:PORT or mqtts://HOST:PORT",
			DefaultText: "an embedded broker", Category: brokerCategory,
			EnvVars: []string{"KOUPSANDBOX_BROKER"}}},
		{"spec.broker.username",
			&cli.StringFlag{Name: "broker-username", Usage: "`NAME`: user name for the external broker",
				Category: brokerCategory,
				EnvVars:  []string{"KOUPSANDBOX_BROKER_USERNAME"}}},
		{"spec.broker.passwordFile",
			&cli.StringFlag{Name: "broker-password-file",
				Usage:       "`FILE`: file with the password for the external broker",
				DefaultText: "the password in $" + brokerPassword, Category: brokerCategory}},
		{"spec.broker.caFile",
			&cli.StringFlag{Name: "broker-ca",
				Usage:       "`FILE`: file with the CA certificate that verifies the external broker",
				DefaultText: "the system CA certificates", Category: brokerCategory}},
		{"spec.broker.certFile",
			&cli.StringFlag{Name: "broker-cert",
				Usage:    "`FILE`: file with the client certificate for the external broker",
				Category: brokerCategory}},
		{"spec.broker.keyFile",
			&cli.StringFlag{Name: "broker-key", Usage: "`FILE`: file with the key of the client certificate",
				Category: brokerCategory}},
		{"spec.broker.consent",
			&cli.BoolFlag{Name: "broker-consent",
				Usage: "start even if other clients already publish messages for the environment on the external " +
					"broker",
				Category: brokerCategory}},
		{"spec.wait", &cli.DurationFlag{Name: "wait",
			Usage: "`DURATION`: maximum time for each step of the startup",
			DefaultText: "1m, or 5m with kind or base Pods; plus 15s per 1000 bases, or 4m per 1000 bases in an " +
				"existing cluster",
			Category: sandboxCategory, EnvVars: []string{"KOUPSANDBOX_WAIT"}}},
	}
}

// FlagFields returns the configuration field that each flag overrides, by the name of the flag with its dashes. The
// names of flags of base add follow the name of the command.
func FlagFields() map[string]string {
	fields := map[string]string{}
	for _, s := range slices.Concat(sandboxSettings(), settings()) {
		fields["--"+s.flag.Names()[0]] = s.field
	}
	for _, s := range baseSettings() {
		fields["base add --"+s.flag.Names()[0]] = "spec.bases[]." + s.field
	}
	return fields
}

func newConfigFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "config", Usage: "`FILE`: configuration file, kind: Sandbox",
		Category: sandboxCategory, EnvVars: []string{"KOUPSANDBOX_CONFIG"}}
}

func flagsOfSettings(list []setting) []cli.Flag {
	flags := []cli.Flag{newConfigFlag()}
	for _, s := range list {
		flags = append(flags, s.flag)
	}
	return flags
}

// configFrom merges the flags of a command, a configuration file, and the defaults, in this order of precedence. If
// the file name is empty, there is no configuration file. presets sets defaults of the command; it can be nil.
// countIsDefault reports whether the number of bases is the default, because neither a flag nor the file sets it. The
// error lists all invalid settings.
func configFrom(c *cli.Context, file string, presets func(*v1alpha1.Spec)) (config *v1alpha1.Sandbox,
	countIsDefault bool, err error) {
	config, origins := &v1alpha1.Sandbox{}, &v1alpha1.Origins{}
	var fileErr error
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, false, fmt.Errorf("reading the configuration: %w", err)
		}
		config, origins, fileErr = v1alpha1.Decode(file, data)
	}
	for _, s := range slices.Concat(sandboxSettings(), settings()) {
		name := s.flag.Names()[0]
		if _, isList := c.Value(name).(string); isList && name == basesFlag {
			continue // bench has another flag with this name
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
		return nil, false, usageError{fmt.Errorf("invalid settings:\n%w", err)}
	}
	return config, len(config.Spec.Bases) == 1 && !origins.IsSet("spec.bases[0].count"), nil
}

// setField sets the configuration field at a path of JSON names to the value of a flag. It allocates nil pointers on
// the path; NAME[0] is the first element of a list, which setField creates. If the field does not exist or has another
// type, which is a programming error, setField panics.
func setField(config *v1alpha1.Sandbox, path string, value any) {
	field := reflect.ValueOf(config).Elem()
	for name := range strings.SplitSeq(path, ".") {
		name, first := strings.CutSuffix(name, "[0]")
		field = field.FieldByNameFunc(func(goName string) bool {
			f, _ := field.Type().FieldByName(goName)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
		if first {
			if field.Len() == 0 {
				field.Set(reflect.MakeSlice(field.Type(), 1, 1))
			}
			field = field.Index(0)
		}
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
