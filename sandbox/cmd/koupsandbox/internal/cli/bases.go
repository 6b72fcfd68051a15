package cli

import (
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
		Name:        "base",
		Usage:       "list, add, restart, kill and remove bases",
		Description: `A BASE is named by its host name (base-1), its address or its identity.`,
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the bases",
				Flags:  []cli.Flag{sandboxNameFlag(), newOutputFlag(formatWide, formatJSON, formatYAML)},
				Action: inSandboxWithArgs(0, 0, "no arguments", s.listBases),
			},
			{
				Name: "add", Usage: "add bases", ArgsUsage: "[N]", Flags: []cli.Flag{sandboxNameFlag()},
				Action: withArgs(0, 1, "how many bases to add, 1 if not given", s.addBases),
			},
			{
				Name: "remove", Usage: "remove bases: those named, the N youngest, or those of a scenario's run",
				ArgsUsage: "[BASE...]",
				Flags: []cli.Flag{sandboxNameFlag(), &cli.IntFlag{Name: "count", Usage: "remove the `N` youngest"},
					&cli.StringFlag{Name: "group",
						Usage: "remove all of the run `GROUP`, which scenario run --keep has left"}},
				Action: withArgs(0, -1, "names of bases", s.removeBases),
			},
			{
				Name: "restart", Usage: "end the processes of bases, if they run, and start them again",
				ArgsUsage: "BASE...",
				Flags: []cli.Flag{sandboxNameFlag(),
					&cli.BoolFlag{Name: newIdentityFlag,
						Usage: "with another identity, as a container that is made anew"}},
				Action: inSandboxWithArgs(1, -1, "names of bases", s.restartBases),
			},
			{
				Name: "kill", Usage: "end the processes of bases without a farewell; base restart or up " +
					"starts them again", ArgsUsage: "BASE...",
				Flags:  []cli.Flag{sandboxNameFlag()},
				Action: inSandboxWithArgs(1, -1, "names of bases", s.killBases),
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
	rows := [][]string{{"BASE", "ADDRESS", "STATE", "NODE READY", "MODULES", "FAULTS", "NODE"}}
	if wide {
		rows[0] = append(rows[0], "NAME", "VERSION", "INSTALLED")
	}
	for _, b := range bases {
		row := []string{b.HostName, b.IP, b.State(), strconv.FormatBool(b.NodeReady),
			strconv.Itoa(len(b.Modules)), strconv.Itoa(b.Faults), b.Node}
		if wide {
			row = append(row, b.Name, b.Version, strings.Join(b.Modules, ", "))
		}
		rows = append(rows, row)
	}
	table(s.Out, rows)
	before := "\n"
	for _, b := range bases {
		if text := baseProblem(b); text != "" {
			printf(s.Out, "%s%s %s\n", before, b.HostName, text)
			before = ""
		}
	}
}

// baseProblem says why a base is not running, and what to do; empty = it is, or will be.
func baseProblem(b control.Base) string {
	switch state := b.State(); {
	case b.Reason != "":
		return "has ended: " + plain.Text(b.Reason) + "; take it away with: koupsandbox base remove " + b.HostName
	case state == control.BaseCrashed:
		if b.Runtime == v1alpha1.RuntimeCluster {
			return "is down: with its Pod, which brings it back (see: koupsandbox status), or by itself; then start it with: koupsandbox base restart " + b.HostName
		}
		return "has crashed; start it again with: koupsandbox base restart " + b.HostName
	case state == control.BaseDisconnected && b.Faults > 0:
		return "is not heard; see its faults with: koupsandbox fault list --base " + b.HostName
	case state == control.BaseDisconnected:
		return "is not heard; it tries again by itself; see: koupsandbox status"
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
			// it need not be scenarioSummary
			err = up.ClearFaults(c.Context, control.FaultSelector{Bases: on, IDs: []string{crash}})
		}
		if err != nil {
			return err
		}
		printf(s.Out, "killed %s\n", name)
	}
	return nil
}

func (s *commands) addBases(c *cli.Context, list []string) error {
	n := 1
	if len(list) == 1 {
		var err error
		n, err = strconv.Atoi(list[0])
		if err != nil {
			return usageError{fmt.Errorf("add takes how many bases to add, and %q is no number", list[0])}
		}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		added, err := up.AddBases(c.Context, control.AddRequest{Count: n})
		s.printEach("added", added)
		return err
	})
}

func (s *commands) printEach(done string, bases []control.Base) {
	for _, b := range bases {
		printf(s.Out, "%s %s (%s)\n", done, b.HostName, b.IP)
	}
}

func (s *commands) removeBases(c *cli.Context, list []string) error {
	ways := 0
	for _, given := range []bool{len(list) > 0, c.Int("count") != 0, c.String("group") != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return usageError{fmt.Errorf("remove takes the names of bases, or --count, or --group, but only one of these")}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		removed, err := up.RemoveBases(c.Context,
			control.RemoveRequest{Bases: list, Count: c.Int("count"), Group: c.String("group")})
		s.printEach("removed", removed)
		return err
	})
}
