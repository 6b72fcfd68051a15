package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// trafficAgent is the command that a daemon starts in a node or a Pod of a cluster. It hears and
// answers over its standard streams, and ends with them.
func (s *commands) trafficAgent() *cli.Command {
	return &cli.Command{
		Name:   agent.Command,
		Usage:  "send requests for a daemon, from where it is started",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: agent.Patience, Usage: "end when nobody has said anything for so long"},
			&cli.BoolFlag{Name: agent.Idle, Usage: "do nothing"},
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
