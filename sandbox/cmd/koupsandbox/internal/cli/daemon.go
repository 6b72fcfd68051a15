package cli

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/daemon"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

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
			ready := os.NewFile(sandbox.ReadyFD, "ready")
			return daemon.New(daemon.Options{
				Dir:      state.Dir(c.String("dir")),
				Programs: daemon.Programs{Self: s.Self, ControlPlane: c.String("controlplane"), Controller: c.String("controller"), Base: c.String("base")},
				Logger:   slog.New(slog.NewTextHandler(s.Err, nil)),
				Listening: func() {
					if ready != nil { // started by hand, it has nobody to tell
						_, _ = fmt.Fprintln(ready, sandbox.ReadyLine)
						_ = ready.Close()
					}
				},
			}).Start(c.Context)
		},
	}
}
