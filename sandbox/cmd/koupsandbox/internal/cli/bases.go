package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

const newIdentityFlag = "new-identity"

func (s *commands) base() *cli.Command {
	return &cli.Command{
		Name:  "base",
		Usage: "list, add, restart, kill and remove bases",
		Description: describe("BASE is the host name (base-1), the IP address or the identity of a base.",
			"koupsandbox base list", "koupsandbox base add 2"),
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the bases",
				Description: describe("", "koupsandbox base list", "koupsandbox base list -o wide"),
				Flags:       []cli.Flag{sandboxNameFlag(), newOutputFlag(formatWide, formatJSON, formatYAML)},
				Action:      inSandboxWithArgs(0, 0, "no arguments", s.listBases),
			},
			s.baseAdd(),
			{
				Name: "remove", Usage: "remove bases by name, by age or by scenario run",
				ArgsUsage:   "[BASE...]",
				Description: describe("", "koupsandbox base remove base-3", "koupsandbox base remove --count 2"),
				Flags: []cli.Flag{sandboxNameFlag(),
					&cli.IntFlag{Name: "count", Usage: "`N`: number of bases to remove, starting with the newest",
						Category: basesCategory},
					&cli.StringFlag{Name: "group", Category: basesCategory,
						Usage: "`NAMESPACE`: remove the bases of a run that was started with scenario run --keep; " +
							"NAMESPACE is the namespace of the run"}},
				Action: withArgs(0, -1, "names of bases", s.removeBases),
			},
			{
				Name: "restart", Usage: "restart base processes, or start crashed bases",
				ArgsUsage: "BASE...",
				Description: describe("", "koupsandbox base restart base-1",
					"koupsandbox base restart --new-identity base-1 base-2"),
				Flags: []cli.Flag{sandboxNameFlag(),
					&cli.BoolFlag{Name: newIdentityFlag,
						Usage: "give the bases new identities, like recreated containers", Category: basesCategory}},
				Action: inSandboxWithArgs(1, -1, "names of bases", s.restartBases),
			},
			{
				Name: "kill", Usage: "kill base processes without disconnecting; to start the bases again, use " +
					"base restart or up",
				ArgsUsage:   "BASE...",
				Description: describe("", "koupsandbox base kill base-1", "koupsandbox base kill base-2 base-3"),
				Flags:       []cli.Flag{sandboxNameFlag()},
				Action:      inSandboxWithArgs(1, -1, "names of bases", s.killBases),
			},
		},
	}
}

func (s *commands) listBases(c *cli.Context, up *sandbox.Sandbox, _ []string) error {
	bases, err := up.Bases(c.Context, "")
	if err != nil {
		return err
	}
	return s.printResult(c, bases, func(wide bool) { s.printBases(bases, wide) })
}

func (s *commands) printBases(bases []control.Base, wide bool) {
	rows := [][]string{{"BASE", "ADDRESS", "STATE", "HEALTH", "NODE READY", "MODULES", "FAULTS", "NODE"}}
	if wide {
		rows[0] = append(rows[0], "NAME", "VERSION", "METASPACE", "RELEASES LEFT", "INSTALLED")
	}
	for _, b := range bases {
		row := []string{b.HostName, b.IP, b.State(), b.Health, strconv.FormatBool(b.NodeReady),
			strconv.Itoa(len(b.Modules)), strconv.Itoa(b.Faults), b.Node}
		if wide {
			row = append(row, b.Name, b.Version, b.Metaspace.String(), cmp.Or(b.ReleasesLeft, "unknown"),
				strings.Join(b.Modules, ", "))
		}
		rows = append(rows, row)
	}
	table(s.Out, rows)
	separator := "\n"
	for _, b := range bases {
		if text := baseProblem(b); text != "" {
			printf(s.Out, "%s%s %s\n", separator, b.HostName, text)
			separator = ""
		}
	}
}

// baseProblem returns the reason why a base is not running, and a fix. It returns empty strings for a base that is
// running or starting.
func baseProblem(b control.Base) string {
	switch state := b.State(); {
	case b.Reason != "":
		return "has exited: " + plain.Text(b.Reason) + "; remove it with: koupsandbox base remove " + b.HostName
	case state == control.BaseCrashed:
		if b.Runtime == v1alpha1.RuntimeCluster {
			return "is down; if its Pod is down (see: koupsandbox status), it starts with the Pod; otherwise, " +
				"start it " +
				"with: koupsandbox base restart " + b.HostName
		}
		return "has crashed; restart it with: koupsandbox base restart " + b.HostName
	case state == control.BaseDisconnected && b.Faults > 0:
		return "is disconnected; to list its faults, run: koupsandbox fault list --base " + b.HostName
	case state == control.BaseDisconnected:
		return "is disconnected, and is reconnecting; see: koupsandbox status"
	}
	return ""
}

func (s *commands) restartBases(c *cli.Context, up *sandbox.Sandbox, list []string) error {
	for _, name := range list {
		b, err := up.RestartBase(c.Context, name, control.RestartRequest{NewIdentity: c.Bool(newIdentityFlag)})
		if err != nil {
			return err
		}
		s.printEach("restarted", []control.Base{*b})
	}
	return nil
}

func (s *commands) killBases(c *cli.Context, up *sandbox.Sandbox, list []string) error {
	for _, name := range list {
		on := []string{name}
		crash, err := up.SetFault(c.Context,
			fault.Injection{Fault: v1alpha1.Fault{Kind: basefault.KindCrash}, Target: v1alpha1.TargetBase, Bases: on})
		if err == nil {
			// Clearing the fault removes it from fault list; the base stays down.
			err = up.ClearFaults(c.Context, control.FaultSelector{Bases: on, IDs: []string{crash}})
		}
		if err != nil {
			return err
		}
		printf(s.Out, "killed %s\n", name)
	}
	return nil
}

func (s *commands) printEach(action string, bases []control.Base) {
	for _, b := range bases {
		printf(s.Out, "%s %s (%s)\n", action, b.HostName, b.IP)
	}
}

func (s *commands) removeBases(c *cli.Context, list []string) error {
	selections := 0
	for _, isSet := range []bool{len(list) > 0, c.Int("count") != 0, c.String("group") != ""} {
		if isSet {
			selections++
		}
	}
	if selections != 1 {
		return usageError{fmt.Errorf("base remove requires exactly one of: base names, --count, --group")}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		removed, err := up.RemoveBases(c.Context,
			control.RemoveRequest{Bases: list, Count: c.Int("count"), Group: c.String("group")})
		s.printEach("removed", removed)
		return err
	})
}
