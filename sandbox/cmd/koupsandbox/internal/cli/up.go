package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

func (s *commands) up() *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring a sandbox up, or one that is up in line with the settings",
		Description: `Starts a Kubernetes control plane, an MQTT broker, simulated bases and the module
controller, and returns when every base is a Ready Node. Flags go before the
settings of --config, which go before the defaults.`,
		Flags: slices.Concat(flagsOfSettings(slices.Concat(sandboxSettings(), settings())), []cli.Flag{
			&cli.BoolFlag{Name: boardFlag, Usage: "then serve the board, until Ctrl-C; the sandbox stays up"},
			&cli.BoolFlag{Name: "foreground", Usage: "stay until Ctrl-C, then take the sandbox down",
				EnvVars: []string{"KOUPSANDBOX_FOREGROUND"}},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print failures only"},
			output(formatJSON, formatYAML),
		}),
		Action: alone(s.runUp),
	}
}

func (s *commands) runUp(c *cli.Context) error { return s.bringUp(c, nil) }

// bringUp brings up what the flags and the file say, with what presets say where neither does.
func (s *commands) bringUp(c *cli.Context, presets func(*v1alpha1.Spec)) error {
	config, keepBases, err := configFrom(c, c.String("config"), presets)
	if err != nil {
		return err
	}
	folder, err := home(c)
	if err != nil {
		return err
	}
	foreground, start := c.Bool("foreground"), time.Now()
	up, err := s.startSandbox(c, sandbox.Options{Home: folder, Config: config, KeepBases: keepBases, DownOnClose: foreground})
	if err != nil {
		return err
	}
	defer up.Close()
	took := time.Since(start)
	err = s.show(c, up.Result, func(bool) {
		if !c.Bool("quiet") {
			s.tellUp(up, took)
		}
	})
	if err != nil {
		return err
	}
	if c.Bool(boardFlag) {
		err = s.boardOf(c, up)
	}
	if err != nil || !foreground {
		return err
	}
	say(s.Err, "Ctrl-C takes it down.\n")
	err = up.Wait(c.Context)
	return endForeground(c, folder, up.Name, err)
}

// startSandbox brings a sandbox up, and shows the progress.
func (s *commands) startSandbox(c *cli.Context, o sandbox.Options) (*sandbox.Sandbox, error) {
	printer := progress.NewPrinter(s.Err,
		progress.PrinterOptions{Terminal: s.Terminal, Width: s.Width, Quiet: c.Bool("quiet")})
	defer printer.Close()
	o.BrokerPassword, o.Binaries, o.Progress = os.Getenv(brokerPassword), sandbox.FindBinaries(s.Self,
		c.String(binFlag)), printer.Event
	return sandbox.Up(c.Context, o)
}

// tellUp says what there is now and which command to type next.
func (s *commands) tellUp(up *sandbox.Sandbox, took time.Duration) {
	status := up.Result.Status
	switch {
	case !up.Result.Already:
		say(s.Out, "Sandbox %q is up after %.1fs", up.Name, took.Seconds())
	case len(up.Result.Changes) == 0:
		say(s.Out, "Sandbox %q was up already; nothing had to be done", up.Name)
	default:
		say(s.Out, "Sandbox %q was up already", up.Name)
	}
	say(s.Out, ": Kubernetes %s (%s), %s, %s.\n", plain.Text(status.Version), status.Provider,
		plain.Count(status.BaseCount, "base"), brokerText(status.Broker))
	for _, change := range up.Result.Changes {
		say(s.Out, "  %s\n", plain.Text(change))
	}
	say(s.Out, "\n  export KUBECONFIG=%s\n  kubectl get nodes\n\nTake it down with: koupsandbox down%s\n",
		shellescape.Quote(up.Kubeconfig), nameArgument(up.Name))
}

func brokerText(b control.Broker) string {
	if b.URL == "" {
		return "broker on " + b.Addr
	}
	return fmt.Sprintf("broker %s by way of %s", b.URL, b.Addr)
}

func nameArgument(name string) string {
	if name == v1alpha1.DefaultName {
		return ""
	}
	return " --name " + name
}

func (s *commands) down() *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "stop a sandbox and remove its state folder",
		Flags: []cli.Flag{
			theName(),
			&cli.BoolFlag{Name: "keep-logs", Usage: "leave the logs in the state folder"},
			&cli.BoolFlag{Name: "force",
				Usage: "give up what cannot be removed, in a cluster that is gone for good, say"},
		},
		Action: alone(func(c *cli.Context) error {
			folder, name, err := target(c)
			if err != nil {
				return err
			}
			o := sandbox.DownOptions{Home: folder, Name: name, KeepLogs: c.Bool("keep-logs")}
			if c.Bool("force") {
				o.Force = func(left error) { say(s.Err, "This could not be removed, and is given up: %v\n", left) }
			}
			start := time.Now()
			was, err := sandbox.Down(c.Context, o)
			switch {
			case err != nil:
				return err
			case was:
				say(s.Out, "Sandbox %q is down after %.1fs.\n", name, time.Since(start).Seconds())
			default:
				say(s.Out, "Sandbox %q was not up; nothing had to be done.\n", name)
			}
			return nil
		}),
	}
}

// endForeground removes what a sandbox in this process leaves behind. Ctrl-C is
// how it is meant to end, and has ended the command's own context.
func endForeground(c *cli.Context, folder, name string, err error) error {
	ctx := context.WithoutCancel(c.Context)
	_, downErr := sandbox.Down(ctx, sandbox.DownOptions{Home: folder, Name: name})
	return errors.Join(err, downErr)
}
