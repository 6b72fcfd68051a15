package cli

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
)

// gcPercent collects twice as often as Go does by default: most of the daemon's heap is bases and their
// connections, which live long.
const gcPercent = 50

// daemon is the command that up starts in the background. Its standard error is
// its log; what it is told on the command line, up has checked.
func (s *commands) daemon() *cli.Command {
	return &cli.Command{
		Name:   "daemon",
		Usage:  "run the daemon of a sandbox",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Required: true, Usage: "state `FOLDER` of the sandbox"},
			&cli.StringFlag{Name: "controlplane", Usage: "`PATH` of koup-controlplane"},
			&cli.StringFlag{Name: "controller", Usage: "`PATH` of module-controller"},
			&cli.StringFlag{Name: "base", Usage: "`PATH` of fakebase"},
		},
		Action: func(c *cli.Context) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			programs := sandbox.Binaries{Daemon: s.Self, ControlPlane: c.String("controlplane"),
				Controller: c.String("controller"), Base: c.String("base")}
			return sandbox.RunDaemon(c.Context, c.String("dir"), programs, slog.New(slog.NewTextHandler(s.Err, nil)))
		},
	}
}
