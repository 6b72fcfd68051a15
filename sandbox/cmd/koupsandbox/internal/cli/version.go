package cli

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
)

func (s *commands) version() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the versions of all binaries",
		Description: describe("", "koupsandbox version", "koupsandbox version -o json"),
		Flags:       []cli.Flag{newOutputFlag(formatJSON, formatYAML)},
		Action: noArgs(func(c *cli.Context) error {
			v := sandbox.VersionsOf(c.Context, sandbox.FindBinaries(s.Executable, c.String(binFlag)))
			return s.printResult(c, v, func(bool) { s.printVersions(v) })
		}),
	}
}

func (s *commands) printVersions(v sandbox.Versions) {
	own := fmt.Sprintf("%s %s/%s %s", cmp.Or(v.Koupsandbox, "(unknown)"), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	if v.Commit != "" {
		own += ", commit " + v.Commit
	}
	printf(s.Out, "koupsandbox %s\n", own)
	for _, program := range []struct{ name, version string }{
		{"kubernetes", v.Kubernetes},
		{"etcd", v.Etcd},
		{sandbox.ControllerBinary, v.Controller},
		{sandbox.BaseBinary, v.Base},
	} {
		printf(s.Out, "%s %s\n", program.name, cmp.Or(program.version, "(not found)"))
	}
}

// man returns the hidden command that prints the man page. The release process uses it.
func (s *commands) man() *cli.Command {
	return &cli.Command{
		Name:   "man",
		Usage:  "print the man page",
		Hidden: true,
		Action: noArgs(func(c *cli.Context) error {
			page, err := c.App.ToManWithSection(1)
			if err != nil {
				return fmt.Errorf("generating the man page: %w", err)
			}
			write(s.Out, page)
			return nil
		}),
	}
}
