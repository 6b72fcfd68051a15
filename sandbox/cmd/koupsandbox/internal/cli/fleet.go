package cli

import (
	"cmp"
	"slices"

	"github.com/urfave/cli/v2"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// fleetControllers are so many that one may end without anybody noticing.
const fleetControllers = 2

func (s *commands) fleet() *cli.Command {
	down := s.down()
	down.Usage = "remove a fleet, and nothing else, from its cluster"
	return &cli.Command{
		Name: "fleet", Usage: "run simulated bases and their controllers in Pods of a cluster that you have",
		Subcommands: []*cli.Command{{
			Name:  "up",
			Usage: "bring a fleet up, or one that is up in line with the settings",
			Description: `Runs --bases simulated bases in Pods, --per-pod in each, and the module controllers as a
Deployment, in the cluster of --context. All of them reach the broker of --broker. This
machine keeps a daemon, which every other command asks: status, watch, scenario run, bench.
It is koupsandbox up with --provider existing, --base-runtime cluster and --controller
cluster. See docs/en/how-to/run-bases-in-a-cluster.md.`,
			Flags: slices.Concat([]cli.Flag{
				newNameFlag("`NAME` of the sandbox, a DNS label"),
				&cli.IntFlag{Name: basesFlag, Usage: "`N` simulated bases, 1 to 20000", Value: 1000,
					EnvVars: []string{"KOUPSANDBOX_BASES"}},
				&cli.IntFlag{Name: "controllers", Usage: "`N` module controllers that share the bases, 1 to 9",
					Value: fleetControllers},
			}, fleetSettings(), []cli.Flag{
				&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print failures only"},
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
	have := []string{
		"config", "per-pod", "base-image", "agent-image", "controller-image", "context", "kubeconfig",
		"allow-unmarked-cluster", "env", "broker", "broker-username",
		"broker-password-file", "broker-ca", "broker-cert", "broker-key", "broker-consent", "wait",
	}
	return slices.DeleteFunc(flagsOfSettings(settings()), func(f cli.Flag) bool {
		return !slices.ContainsFunc(f.Names(), func(name string) bool { return slices.Contains(have, name) })
	})
}

// fleetPresets make a fleet of what nobody has said otherwise.
func fleetPresets(spec *v1alpha1.Spec, bases int) {
	spec.Provider = cmp.Or(spec.Provider, v1alpha1.ProviderExisting)
	spec.Bases.Runtime = cmp.Or(spec.Bases.Runtime, v1alpha1.RuntimeCluster)
	spec.Controller.Location = cmp.Or(spec.Controller.Location, v1alpha1.LocationCluster)
	if spec.Controller.Replicas == nil {
		spec.Controller.Replicas = ptr.To(fleetControllers)
	}
	if spec.Bases.Count == nil {
		spec.Bases.Count = ptr.To(bases)
	}
}
