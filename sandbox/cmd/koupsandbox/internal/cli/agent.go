package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// trafficAgent returns the hidden command that runs a traffic agent. The daemon starts the agent on a node or in a
// Pod of a cluster, and controls it through its standard streams. The agent exits when the streams are closed.
func (s *commands) trafficAgent() *cli.Command {
	return &cli.Command{
		Name:   agent.Command,
		Usage:  "send requests on behalf of a daemon",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: agent.Patience,
				Usage: "`DURATION`: time without messages after which the agent ends"},
			&cli.BoolFlag{Name: agent.Idle, Usage: "do nothing until the command is stopped"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool(agent.Idle) {
				<-c.Done()
				return nil
			}
			conn, err := stdio.Standard()
			if err != nil {
				return err
			}
			return agent.Serve(c.Context, conn, c.Duration(agent.Patience))
		},
	}
}
