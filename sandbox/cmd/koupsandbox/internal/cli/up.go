package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		Usage: "create a sandbox, or reconcile a running sandbox",
		Description: describe(`Starts a Kubernetes control plane, an MQTT broker, simulated bases and the module
controller, and returns when every base has a Ready Node. In a running sandbox, up restarts
failed components and bases, resumes paused components, and adds or removes bases. Flags
override the configuration file of --config.`,
			"koupsandbox up --bases 10", "koupsandbox up --provider kind --base-runtime cluster"),
		Flags: slices.Concat(flagsOfSettings(slices.Concat(sandboxSettings(), settings())), []cli.Flag{
			&cli.BoolFlag{Name: boardFlag, Usage: "serve the web UI until Ctrl-C; the sandbox keeps running",
				Category: outputCategory},
			&cli.BoolFlag{Name: "foreground", Usage: "wait for Ctrl-C, then stop the sandbox",
				Category: sandboxCategory, EnvVars: []string{"KOUPSANDBOX_FOREGROUND"}},
			newQuietFlag(),
			newOutputFlag(formatJSON, formatYAML),
		}),
		Action: noArgs(s.runUp),
	}
}

func (s *commands) runUp(c *cli.Context) error { return s.bringUp(c, nil) }

// bringUp creates or reconciles the sandbox that the flags and the configuration file describe. presets sets defaults
// of the command; it can be nil.
func (s *commands) bringUp(c *cli.Context, presets func(*v1alpha1.Spec)) error {
	config, keepBases, err := configFrom(c, c.String("config"), presets)
	if err != nil {
		return err
	}
	home, err := homeDir(c)
	if err != nil {
		return err
	}
	foreground, start := c.Bool("foreground"), time.Now()
	up, err := s.startSandbox(c,
		sandbox.Options{Home: home, Config: config, KeepBases: keepBases, DownOnClose: foreground})
	if err != nil {
		return err
	}
	defer up.Close()
	took := time.Since(start)
	err = s.printResult(c, up.Result, func(bool) {
		if !c.Bool("quiet") {
			s.printUp(up, took, !c.Bool(boardFlag))
		}
	})
	if err != nil {
		return err
	}
	if c.Bool(boardFlag) {
		err = s.serveSandboxBoard(c, up)
	}
	if err != nil || !foreground {
		return err
	}
	printf(s.Err, "Press Ctrl-C to stop the sandbox.\n")
	err = up.Wait(c.Context)
	return endForeground(c, home, up.Name, err)
}

// startSandbox creates or reconciles a sandbox, and prints the progress.
func (s *commands) startSandbox(c *cli.Context, o sandbox.Options) (*sandbox.Sandbox, error) {
	printer := progress.NewPrinter(s.Err,
		progress.PrinterOptions{Terminal: s.Terminal, Width: s.Width, Quiet: c.Bool("quiet")})
	defer printer.Close()
	o.BrokerPassword, o.Binaries, o.Progress = os.Getenv(brokerPassword), sandbox.FindBinaries(s.Executable,
		c.String(binFlag)), printer.Event
	return sandbox.Up(c.Context, o)
}

// printUp prints a summary of the sandbox and suggests the next commands to run. With suggestBoard, these include the
// command that opens the web UI.
func (s *commands) printUp(up *sandbox.Sandbox, took time.Duration, suggestBoard bool) {
	status := up.Result.Status
	switch {
	case !up.Result.Already:
		printf(s.Out, "Sandbox %q is up after %.1fs", up.Name, took.Seconds())
	case len(up.Result.Changes) == 0:
		printf(s.Out, "Sandbox %q is already running; nothing was changed", up.Name)
	default:
		printf(s.Out, "Sandbox %q is already running", up.Name)
	}
	printf(s.Out, ": Kubernetes %s (%s), %s, %s.\n", plain.Text(status.Version), status.Provider,
		plain.Count(status.BaseCount, "base"), brokerText(status.Broker))
	for _, change := range up.Result.Changes {
		printf(s.Out, "  %s\n", plain.Text(change))
	}
	name, env := nameArgument(up.Name), ""
	if status.Env != v1alpha1.DefaultEnv {
		env = " --env " + status.Env
	}
	printf(s.Out, "\n%s  export KUBECONFIG=%s\n  kubectl get nodes\n\nTake it down with: koupsandbox down%s\n",
		s.pathExport(), shellescape.Quote(up.Kubeconfig), name)
	next, board := "", ""
	if suggestBoard {
		next, board = "open the web UI, ", fmt.Sprintf("  koupsandbox board%s\n", name)
	}
	printf(s.Out, `
Next, %sinstall a sample module, or compare two releases:

%s  koupsandbox init%s stock && kubectl apply -f stock/manifests
  koupsandbox demo
`, next, board, env)
}

// pathExport returns the shell command that adds the directory of this binary to PATH. It returns an empty string if
// the shell already finds this binary.
func (s *commands) pathExport() string {
	found, err := exec.LookPath(filepath.Base(s.Executable))
	if err == nil {
		own, ownErr := os.Stat(s.Executable)
		other, otherErr := os.Stat(found)
		if ownErr == nil && otherErr == nil && os.SameFile(own, other) {
			return ""
		}
	}
	return fmt.Sprintf("  export PATH=%s:$PATH\n", shellescape.Quote(filepath.Dir(s.Executable)))
}

func brokerText(b control.Broker) string {
	if b.URL == "" {
		return "broker on " + b.Addr
	}
	return fmt.Sprintf("broker %s through %s", b.URL, b.Addr)
}

func nameArgument(name string) string {
	if name == v1alpha1.DefaultName {
		return ""
	}
	return " --name " + name
}

func (s *commands) down() *cli.Command {
	return &cli.Command{
		Name:        "down",
		Usage:       "stop a sandbox and remove its state directory",
		Description: describe("", "koupsandbox down", "koupsandbox down --name demo --keep-logs"),
		Flags: []cli.Flag{
			sandboxNameFlag(),
			&cli.BoolFlag{Name: "keep-logs", Usage: "keep the logs in the state directory",
				Category: sandboxCategory},
			&cli.BoolFlag{Name: "force",
				Usage:    "continue even if objects cannot be removed",
				Category: sandboxCategory},
		},
		Action: noArgs(func(c *cli.Context) error {
			home, name, err := sandboxTarget(c)
			if err != nil {
				return err
			}
			o := sandbox.DownOptions{Home: home, Name: name, KeepLogs: c.Bool("keep-logs")}
			if c.Bool("force") {
				o.Force = func(left error) { printf(s.Err, "Ignored, because it could not be removed: %v\n", left) }
			}
			start := time.Now()
			stopped, err := sandbox.Down(c.Context, o)
			switch {
			case err != nil:
				return err
			case stopped:
				printf(s.Out, "Sandbox %q is down after %.1fs.\n", name, time.Since(start).Seconds())
			default:
				printf(s.Out, "Sandbox %q is not running; nothing was changed.\n", name)
			}
			return nil
		}),
	}
}

// endForeground stops the sandbox that up --foreground has started, and removes its state. It runs to completion even
// if the context of the command is canceled, because Ctrl-C is the normal way to end the command.
func endForeground(c *cli.Context, home, name string, err error) error {
	ctx := context.WithoutCancel(c.Context)
	_, downErr := sandbox.Down(ctx, sandbox.DownOptions{Home: home, Name: name})
	return errors.Join(err, downErr)
}
