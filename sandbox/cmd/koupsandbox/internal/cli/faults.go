package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

const (
	baseFlag   = "base"
	targetFlag = "target"
)

const faultSyntax = `A fault is YAML or JSON. Its fields are described by: koupsandbox scenario explain fault
Faults with the target api require a sandbox with spec.controller.apiView: true.`

var faultExamples = []string{
	"koupsandbox fault set --base base-1 '{kind: disconnect, for: 30s}'",
	"koupsandbox fault set --target api '{kind: holdWatch, match: {resource: nodes}, for: 20s}'",
}

func (s *commands) faults() *cli.Command {
	selection := func(target string) []cli.Flag {
		return []cli.Flag{
			sandboxNameFlag(),
			&cli.StringSliceFlag{Name: baseFlag, Usage: "`BASE`: base to which the faults apply; repeatable",
				Category: faultsCategory},
			&cli.StringFlag{Name: targetFlag, Usage: "`TARGET`: target of the faults: base, api (API connections) or mqtt " +
				"(broker connections)",
				DefaultText: target, Category: faultsCategory},
		}
	}
	return &cli.Command{
		Name: "fault", Usage: "set, list and clear faults of bases, of API connections and of broker connections",
		Description: describe(faultSyntax, faultExamples...),
		Subcommands: []*cli.Command{
			{
				Name: "set", Usage: "set a fault and print its ID", ArgsUsage: "[FAULT]",
				Description: describe(faultSyntax, faultExamples...),
				Flags: append(selection("base"),
					&cli.IntFlag{Name: "replica",
						Usage:       "`NUMBER`: number of the affected controller, starting at 1; for the targets api and mqtt",
						DefaultText: "all", Category: faultsCategory},
					&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE`: file that contains the fault, as JSON " +
						"or YAML",
						Category: faultsCategory}),
				Action: withArgs(0, 1, "at most one argument: the fault", s.setFault),
			},
			{
				Name: "list", Usage: "list faults and their trigger counts",
				Description: describe(
					"With -o wide, the fault definitions and the API writes of each controller are also printed.",
					"koupsandbox fault list", "koupsandbox fault list --base base-1 -o wide"),
				Flags:  append(selection("all"), newOutputFlag(formatWide, formatJSON, formatYAML)),
				Action: inSandboxWithArgs(0, 0, "no arguments", s.listFaults),
			},
			{
				Name: "clear", Usage: "clear faults by ID, or all faults", ArgsUsage: "[ID...]",
				Description: describe("", "koupsandbox fault clear fault-1", "koupsandbox fault clear --base base-1"),
				Flags:       selection("all"),
				Action: inSandboxWithArgs(0, -1, "IDs of faults",
					func(c *cli.Context, up *sandbox.Sandbox, list []string) error {
						return up.ClearFaults(c.Context, faultSelector(c, list...))
					}),
			},
		},
	}
}

func faultSelector(c *cli.Context, ids ...string) control.FaultSelector {
	return control.FaultSelector{Target: v1alpha1.FaultTarget(c.String(targetFlag)), Bases: c.StringSlice(baseFlag),
		IDs: ids}
}

func (s *commands) setFault(c *cli.Context, list []string) (err error) {
	var text []byte
	switch file := c.String("file"); {
	case (file == "") == (len(list) == 0):
		return usageError{fmt.Errorf("fault set requires either a fault or --file")}
	case file != "":
		text, err = os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the fault: %w", err)
		}
	default:
		text = []byte(list[0])
	}
	r := faultSelector(c)
	i := fault.Injection{Target: cmp.Or(r.Target, v1alpha1.TargetBase), Bases: r.Bases, Replica: c.Int("replica")}
	if _, problems := strictyaml.Decode(c.String("file"), text, &i.Fault); len(problems) > 0 {
		return usageError{fmt.Errorf("invalid fault: %w", problems)}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		id, err := up.SetFault(c.Context, i)
		if err == nil {
			printf(s.Out, "%s\n", id)
		}
		return err
	})
}

func (s *commands) listFaults(c *cli.Context, up *sandbox.Sandbox, _ []string) error {
	all, err := up.Faults(c.Context, "")
	if err != nil {
		return err
	}
	r := faultSelector(c)
	all.Faults = slices.DeleteFunc(all.Faults, func(f fault.Status) bool { return !r.Matches(f.Injection) })
	return s.printResult(c, all, func(wide bool) { s.printFaults(all, wide) })
}

func (s *commands) printFaults(all control.Faults, wide bool) {
	rows := [][]string{{"ID", "TARGET", "ON", "KIND", "TRIGGERED", "STATE"}}
	if wide {
		rows[0] = append(rows[0], "FAULT")
	}
	for _, f := range all.Faults {
		on := strings.Join(f.Bases, ", ")
		if on == "" {
			on = "controllers"
		}
		if f.Replica > 0 {
			on = fmt.Sprintf("controller %d", f.Replica)
		}
		row := []string{f.ID, string(f.Target), on, string(f.Kind), strconv.Itoa(f.Triggered), "in effect"}
		if f.Ended != "" {
			row[5] = "ended: " + f.Ended
		}
		if wide {
			text, _ := json.Marshal(f.Fault) // its fields can be encoded
			row = append(row, string(text))
		}
		rows = append(rows, row)
	}
	table(s.Out, rows)
	for _, n := range slices.Sorted(maps.Keys(all.Writes.By)) {
		for _, write := range slices.Sorted(maps.Keys(all.Writes.By[n])) {
			if wide {
				printf(s.Out, "controller %d: %s %d\n", n, write, all.Writes.By[n][write])
			}
		}
	}
}
