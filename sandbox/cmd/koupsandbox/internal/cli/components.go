package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

func (s *commands) component() *cli.Command {
	usage := map[supervise.Action]string{
		supervise.Kill:    "kill a component, to simulate a crash",
		supervise.Pause:   "suspend a component: its connections stay open, but it does not respond",
		supervise.Resume:  "resume a paused component",
		supervise.Restart: "stop a component, start it again, and wait until it is ready",
		supervise.Stop:    "stop a component",
		supervise.Start:   "start a component that has exited, and wait until it is ready",
	}
	group := &cli.Command{Name: "component", Usage: "kill, pause, resume, restart, stop and start components",
		Description: describe("", "koupsandbox component restart module-controller",
			"koupsandbox component kill broker")}
	for _, action := range supervise.Actions {
		group.Subcommands = append(group.Subcommands, &cli.Command{
			Name: string(action), Usage: usage[action], ArgsUsage: "COMPONENT", Flags: []cli.Flag{sandboxNameFlag()},
			Description: describe("", "koupsandbox component "+string(action)+" module-controller",
				"koupsandbox component "+string(action)+" broker"),
			Action: inSandboxWithArgs(1, 1, "a component; see: koupsandbox status",
				func(c *cli.Context, up *sandbox.Sandbox, list []string) error {
					return up.Act(c.Context, sandbox.ActRequest{Component: list[0], Action: action})
				}),
		})
	}
	return group
}
