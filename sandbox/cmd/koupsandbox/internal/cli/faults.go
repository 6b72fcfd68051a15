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

func (s *commands) faults() *cli.Command {
	selection := func(target string) []cli.Flag {
		return []cli.Flag{
			theName(),
			&cli.StringSliceFlag{Name: baseFlag, Usage: "`BASE` that the faults act on; may be repeated"},
			&cli.StringFlag{Name: targetFlag, Usage: "`TARGET` of the faults: base, api or mqtt", DefaultText: target},
		}
	}
	return &cli.Command{
		Name: "fault", Usage: "set, list and clear faults of bases and of the connections to the API server " +
			"and the broker",
		Description: "A fault is YAML or JSON; koupsandbox scenario explain fault describes its fields. Faults " +
			"of the target\n" +
			"api need a sandbox with spec.controller.apiView: true.\n\n" +
			"koupsandbox fault set --base base-1 '{kind: disconnect, for: 30s}'\n" +
			"koupsandbox fault set --target api '{kind: holdWatch, match: {resource: nodes}, for: 20s}'",
		Subcommands: []*cli.Command{
			{
				Name: "set", Usage: "set a fault, and print its id", ArgsUsage: "[FAULT]",
				Flags: append(selection("base"),
					&cli.IntFlag{Name: "replica",
						Usage: "`NUMBER` of the controller that a fault of the target api or mqtt " +
							"acts on, from 1",
						DefaultText: "all"},
					&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` with the fault"}),
				Action: taking(0, 1, "a fault", s.setFault),
			},
			{
				Name: "list", Usage: "list faults with how often each was triggered; -o wide adds the writes of " +
					"the controllers",
				Flags:  append(selection("all"), output(formatWide, formatJSON, formatYAML)),
				Action: within(0, 0, "no arguments", s.listFaults),
			},
			{
				Name: "clear", Usage: "end faults: those with the ids, or all", ArgsUsage: "[ID...]",
				Flags: selection("all"),
				Action: within(0, -1, "ids of faults", func(c *cli.Context, up *sandbox.Sandbox, list []string) error {
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
		return usageError{fmt.Errorf("set takes a fault, or --file, but not both")}
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
			say(s.Out, "%s\n", id)
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
	return s.show(c, all, func(wide bool) { s.tellFaults(all, wide) })
}

func (s *commands) tellFaults(all control.Faults, wide bool) {
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
			text, _ := json.Marshal(f.Fault) // plain fields
			row = append(row, string(text))
		}
		rows = append(rows, row)
	}
	table(s.Out, rows)
	for _, n := range slices.Sorted(maps.Keys(all.Writes.By)) {
		for _, what := range slices.Sorted(maps.Keys(all.Writes.By[n])) {
			if wide {
				say(s.Out, "controller %d: %s %d\n", n, what, all.Writes.By[n][what])
			}
		}
	}
}
