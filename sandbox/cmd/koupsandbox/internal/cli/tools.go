package cli

import (
	_ "embed" // the completion scripts
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/doctor"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

func (s *commands) kubeconfig() *cli.Command {
	return &cli.Command{
		Name:  "kubeconfig",
		Usage: "print the kubeconfig of a sandbox",
		Description: describe("", "koupsandbox kubeconfig > kubeconfig.yaml",
			"kubectl --kubeconfig $(koupsandbox kubeconfig --path) get nodes"),
		Flags: []cli.Flag{sandboxNameFlag(), &cli.BoolFlag{Name: "path",
			Usage: "print the path of the kubeconfig instead of its content", Category: outputCategory}},
		Action: noArgs(func(c *cli.Context) error {
			home, name, err := sandboxTarget(c)
			if err != nil {
				return err
			}
			path := state.Home(home).Dir(name).Kubeconfig()
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf(
					"sandbox %q is %w, so it has no kubeconfig; start it with: koupsandbox up --name %s", name,
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
		Name:        "doctor",
		Usage:       "check whether this machine meets the requirements",
		Description: describe("", "koupsandbox doctor", "koupsandbox doctor --engine podman -o json"),
		Flags:       []cli.Flag{newEngineFlag(), newLanguageFlag(), newOutputFlag(formatJSON, formatYAML)},
		Action: noArgs(func(c *cli.Context) error {
			l, err := s.languageOf(c)
			if err != nil {
				return err
			}
			home, err := homeDir(c)
			if err != nil {
				return err
			}
			checks := doctor.Run(c.Context, l, home, c.String(engineFlag),
				sandbox.FindBinaries(s.Executable, c.String(binFlag)))
			err = s.printResult(c, checks, func(bool) { s.printChecks(checks) })
			if err == nil && slices.ContainsFunc(checks, func(check doctor.Check) bool { return !check.OK }) {
				err = errFailed
			}
			return err
		}),
	}
}

func (s *commands) printChecks(checks []doctor.Check) {
	for _, check := range checks {
		mark := "✓"
		if !check.OK {
			mark = "✗"
		}
		padding := strings.Repeat(" ", max(28-columns(check.Name), 0))
		printf(s.Out, "%s %s%s %s\n", mark, check.Name, padding, check.Detail)
		if check.Fix != "" {
			printf(s.Out, "  → %s\n", check.Fix)
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
		Description: describe("", "source <(koupsandbox completion bash)", "source <(koupsandbox completion zsh)",
			"koupsandbox completion fish | source"),
		Action: withArgs(1, 1, "one of bash, zsh and fish", func(c *cli.Context, list []string) error {
			switch list[0] {
			case "bash":
				write(s.Out, bashCompletion)
			case "zsh":
				write(s.Out, zshCompletion)
			case "fish":
				script, err := c.App.ToFishCompletion()
				if err != nil {
					return fmt.Errorf("generating the fish completion script: %w", err)
				}
				write(s.Out, script)
			default:
				return usageError{fmt.Errorf("unsupported shell %q; use bash, zsh or fish", list[0])}
			}
			return nil
		}),
	}
}
