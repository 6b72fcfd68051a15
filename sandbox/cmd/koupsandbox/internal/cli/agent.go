package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// trafficAgent is the command that a daemon starts in a node of a cluster. It hears and
// answers over its standard streams, and ends with them.
func (s *commands) trafficAgent() *cli.Command {
	return &cli.Command{
		Name:   agent.Command,
		Usage:  "send requests for a daemon, from where it is started",
		Hidden: true,
		Action: func(c *cli.Context) error {
			conn, err := stdio.Standard()
			if err != nil {
				return err
			}
			return agent.Serve(c.Context, conn)
		},
	}
}
