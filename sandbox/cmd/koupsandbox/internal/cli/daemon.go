package cli

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
)

// gcPercent makes the garbage collector run twice as often as by default, which reduces memory usage. Most of the
// daemon's heap is long-lived: bases and their connections.
const gcPercent = 50

// daemon returns the hidden command that up starts in the background. Its standard error is the log file of the
// daemon. It does not validate its flags, because up has already validated them.
func (s *commands) daemon() *cli.Command {
	return &cli.Command{
		Name:   "daemon",
		Usage:  "run the daemon of a sandbox",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Required: true, Usage: "`DIR`: state directory of the sandbox"},
			&cli.StringFlag{Name: "controlplane", Usage: "`PATH`: path of koup-controlplane"},
			&cli.StringFlag{Name: "controller", Usage: "`PATH`: path of module-controller"},
			&cli.StringFlag{Name: "base", Usage: "`PATH`: path of fakebase"},
		},
		Action: func(c *cli.Context) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			programs := sandbox.Binaries{Daemon: s.Executable, ControlPlane: c.String("controlplane"),
				Controller: c.String("controller"), Base: c.String("base")}
			return sandbox.RunDaemon(c.Context, c.String("dir"), programs, slog.New(slog.NewTextHandler(s.Err, nil)))
		},
	}
}
