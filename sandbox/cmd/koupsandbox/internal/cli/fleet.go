package cli

import (
	"cmp"
	"slices"

	"github.com/urfave/cli/v2"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// fleetControllers is the default number of controllers in a fleet. With more than one controller, bases stay Ready
// when a controller fails.
const fleetControllers = 2

var fleetExamples = []string{
	"koupsandbox fleet up --context my-cluster --allow-unmarked-cluster --broker mqtts://broker.example:8883 \\\n    " +
		"--broker-ca ca.crt --base-image registry.example/fakebase:1 --controller-image " +
		"registry.example/module-controller:1",
	"koupsandbox fleet down",
}

func (s *commands) fleet() *cli.Command {
	down := s.down()
	down.Usage = "remove a fleet from its cluster"
	down.Description = describe("Other objects in the cluster are kept.", "koupsandbox fleet down",
		"koupsandbox fleet down --name load --keep-logs")
	return &cli.Command{
		Name: "fleet", Usage: "run simulated bases and their controllers in Pods of an existing cluster",
		Description: describe("", fleetExamples...),
		Subcommands: []*cli.Command{{
			Name:  "up",
			Usage: "create a fleet, or reconcile a running fleet",
			Description: describe(
				`Runs simulated bases in Pods, and the module controllers in a Deployment, in the cluster of
--context. Bases and controllers connect to the external broker of --broker. A daemon on
this machine serves other commands, such as status, watch, scenario run and bench. The
command is equivalent to koupsandbox up with --provider existing, --base-runtime cluster and
--controller cluster. See docs/en/how-to/run-bases-in-a-cluster.md.`, fleetExamples...),
			Flags: slices.Concat([]cli.Flag{
				sandboxNameFlag(),
				&cli.IntFlag{Name: basesFlag, Usage: "`N`: number of simulated bases, 1 to 20000", Value: 1000,
					Category: basesCategory, EnvVars: []string{"KOUPSANDBOX_BASES"}},
				&cli.IntFlag{Name: "controllers",
					Usage: "`N`: number of module controllers, 1 to 9; they share the bases",
					Value: fleetControllers, Category: controllerCategory},
			}, fleetSettings(), []cli.Flag{
				newQuietFlag(),
				newOutputFlag(formatJSON, formatYAML),
			}),
			Action: noArgs(s.runFleet),
		}, down},
	}
}

func (s *commands) runFleet(c *cli.Context) error {
	return s.bringUp(c, func(spec *v1alpha1.Spec) { fleetPresets(spec, c.Int(basesFlag)) })
}

func fleetSettings() []cli.Flag {
	names := []string{
		"config", "per-pod", "base-image", "agent-image", "controller-image", "context", "kubeconfig",
		"allow-unmarked-cluster", "env", "broker", "broker-username",
		"broker-password-file", "broker-ca", "broker-cert", "broker-key", "broker-consent", "wait",
	}
	return slices.DeleteFunc(flagsOfSettings(settings()), func(f cli.Flag) bool {
		return !slices.ContainsFunc(f.Names(), func(name string) bool { return slices.Contains(names, name) })
	})
}

// fleetPresets sets the fields that a large fleet of bases needs, unless they are already set.
func fleetPresets(spec *v1alpha1.Spec, bases int) {
	spec.Provider = cmp.Or(spec.Provider, v1alpha1.ProviderExisting)
	spec.Fleet.Runtime = cmp.Or(spec.Fleet.Runtime, v1alpha1.RuntimeCluster)
	spec.Controller.Location = cmp.Or(spec.Controller.Location, v1alpha1.LocationCluster)
	if spec.Controller.Replicas == nil {
		spec.Controller.Replicas = ptr.To(fleetControllers)
	}
	if len(spec.Bases) == 0 {
		spec.Bases = []v1alpha1.BaseSet{{}}
	}
	if first := &spec.Bases[0]; first.Count == nil {
		first.Count = ptr.To(bases)
	}
}
