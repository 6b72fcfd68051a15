package cli

import (
	_ "embed" // the completion scripts
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/doctor"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

func (s *commands) kubeconfig() *cli.Command {
	return &cli.Command{
		Name:  "kubeconfig",
		Usage: "print the kubeconfig of a sandbox",
		Flags: []cli.Flag{theName(), &cli.BoolFlag{Name: "path", Usage: "print its path"}},
		Action: alone(func(c *cli.Context) error {
			folder, name, err := target(c)
			if err != nil {
				return err
			}
			path := state.Home(folder).Dir(name).Kubeconfig()
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf(
					"sandbox %q is %w, so it has no kubeconfig; bring it up with: koupsandbox up --name %s", name,
					sandbox.ErrNotUp, name)
			}
			if c.Bool("path") {
				write(s.Out, path+"\n")
				return nil
			}
			write(s.Out, string(text))
			return nil
		}),
	}
}

func (s *commands) doctor() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check what this machine must have",
		Flags: []cli.Flag{engine(), output(formatJSON, formatYAML)},
		Action: alone(func(c *cli.Context) error {
			folder, err := home(c)
			if err != nil {
				return err
			}
			checks := doctor.Run(c.Context, folder, c.String(engineFlag),
				sandbox.FindBinaries(s.Self, c.String(binFlag)))
			err = s.show(c, checks, func(bool) { s.tellChecks(checks) })
			if err == nil && slices.ContainsFunc(checks, func(check doctor.Check) bool { return !check.OK }) {
				err = errFailed
			}
			return err
		}),
	}
}

func (s *commands) tellChecks(checks []doctor.Check) {
	for _, check := range checks {
		mark := "✓"
		if !check.OK {
			mark = "✗"
		}
		say(s.Out, "%s %-28s %s\n", mark, check.Name, check.Detail)
		if check.Fix != "" {
			say(s.Out, "  → %s\n", check.Fix)
		}
	}
}

var (
	//go:embed completion/bash.sh
	bashCompletion string
	//go:embed completion/zsh.sh
	zshCompletion string
)

func (s *commands) completion() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script for a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Use it with one of:
  source <(koupsandbox completion bash)
  source <(koupsandbox completion zsh)
  koupsandbox completion fish | source`,
		Action: taking(1, 1, "one of bash, zsh and fish", func(c *cli.Context, list []string) error {
			switch list[0] {
			case "bash":
				write(s.Out, bashCompletion)
			case "zsh":
				write(s.Out, zshCompletion)
			case "fish":
				script, err := c.App.ToFishCompletion()
				if err != nil {
					return fmt.Errorf("making the script for fish: %w", err)
				}
				write(s.Out, script)
			default:
				return usageError{fmt.Errorf("completion takes one of bash, zsh and fish, not %q", list[0])}
			}
			return nil
		}),
	}
}
