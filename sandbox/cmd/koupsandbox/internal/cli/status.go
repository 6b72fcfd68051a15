package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

const basesShown = 10

func (s *commands) status() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show the status of components and bases",
		Description: describe(`Exit status: 0 if all components and bases are ready, 1 otherwise.`,
			"koupsandbox status", "koupsandbox status -o wide"),
		Flags: []cli.Flag{sandboxNameFlag(), newOutputFlag(formatWide, formatJSON, formatYAML)},
		Action: noArgs(func(c *cli.Context) error {
			home, name, err := sandboxTarget(c)
			if err != nil {
				return err
			}
			status, err := sandbox.Inspect(c.Context, home, name, true)
			if err != nil {
				return err
			}
			err = s.printResult(c, status, func(wide bool) { s.printStatus(status, wide) })
			if err == nil && !status.Healthy {
				err = errFailed
			}
			return err
		}),
	}
}

func (s *commands) printStatus(status *sandbox.Status, wide bool) {
	now := time.Now()
	printf(s.Out, "Sandbox %q is %s", status.Name, status.Phase)
	if status.Phase != control.Dead {
		printf(s.Out, ": Kubernetes %s (%s), env %s, %s, gateway on %s, up for %s", plain.Text(status.Version),
			status.Provider, plain.Text(status.Env),
			brokerText(status.Broker), status.Gateway, since(now, status.StartedAt))
	}
	printf(s.Out, ".\n\n")
	rows := [][]string{{"COMPONENT", "STATE", "READY", "PID", "MEMORY", "UPTIME", "REASON"}}
	if slices.ContainsFunc(status.Components, func(c control.Component) bool { return c.Pod != "" }) {
		rows[0][3] = "PID OR POD"
	}
	for _, p := range status.Components {
		uptime := ""
		if p.Exit == "" {
			uptime = since(now, p.StartedAt)
		}
		rows = append(rows, []string{p.Name, string(p.State), strconv.FormatBool(p.Ready), cmp.Or(p.Pod, number(p.PID)),
			megabytes(p.RSS), uptime, p.Reason})
	}
	table(s.Out, rows)
	if status.BaseCount > 0 {
		printf(s.Out, "\n%s, %d connected\n\n", plain.Count(status.BaseCount, "base"), status.BasesConnected)
		shown := status.Bases
		if !wide && len(shown) > basesShown {
			shown = shown[:basesShown]
		}
		s.printBases(shown, wide)
		if hidden := len(status.Bases) - len(shown); hidden > 0 {
			printf(s.Out, "and %d more; to list all bases, run: koupsandbox status -o wide\n", hidden)
		}
	}
	if len(status.Problems) > 0 {
		printf(s.Out, "\n")
	}
	for _, problem := range status.Problems {
		printf(s.Out, "✗ %s\n", plain.Text(problem))
	}
}

func (s *commands) list() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list all sandboxes",
		Description: describe("", "koupsandbox list", "koupsandbox list -o json"),
		Flags:       []cli.Flag{newOutputFlag(formatJSON, formatYAML)},
		Action: noArgs(func(c *cli.Context) error {
			home, err := homeDir(c)
			if err != nil {
				return err
			}
			all, err := sandbox.List(c.Context, home)
			if err != nil {
				return err
			}
			return s.printResult(c, all, func(bool) { s.printList(all) })
		}),
	}
}

func (s *commands) printList(all []*sandbox.Status) {
	if len(all) == 0 {
		printf(s.Out, "There are no sandboxes; create one with: koupsandbox up\n")
		return
	}
	now := time.Now()
	rows := [][]string{{"NAME", "PHASE", "HEALTHY", "PROVIDER", "KUBERNETES", "BASES", "UPTIME"}}
	for _, status := range all {
		rows = append(rows, []string{status.Name, string(status.Phase), strconv.FormatBool(status.Healthy),
			string(status.Provider), status.Version, number(status.BaseCount), since(now, status.StartedAt)})
	}
	table(s.Out, rows)
}

// number formats a number for a table. It returns an empty string for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func megabytes(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d MB", n/1e6)
}

func since(now, start time.Time) string {
	if start.IsZero() {
		return ""
	}
	return now.Sub(start).Round(time.Second).String()
}
