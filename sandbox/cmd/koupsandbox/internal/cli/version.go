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
		Name:  "version",
		Usage: "print the versions of all programs",
		Flags: []cli.Flag{output(formatJSON, formatYAML)},
		Action: alone(func(c *cli.Context) error {
			v := sandbox.VersionsOf(c.Context, sandbox.FindBinaries(s.Self, c.String(binFlag)))
			return s.show(c, v, func(bool) { s.tellVersions(v) })
		}),
	}
}

func (s *commands) tellVersions(v sandbox.Versions) {
	ours := fmt.Sprintf("%s %s/%s %s", cmp.Or(v.Koupsandbox, "(unknown)"), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	if v.Commit != "" {
		ours += ", commit " + v.Commit
	}
	say(s.Out, "koupsandbox %s\n", ours)
	for _, program := range []struct{ name, version string }{
		{"kubernetes", v.Kubernetes},
		{"etcd", v.Etcd},
		{sandbox.ControllerBinary, v.Controller},
		{sandbox.BaseBinary, v.Base},
	} {
		say(s.Out, "%s %s\n", program.name, cmp.Or(program.version, "(not found)"))
	}
}

// man prints the page of the manual, for the release.
func (s *commands) man() *cli.Command {
	return &cli.Command{
		Name:   "man",
		Usage:  "print the page of the manual",
		Hidden: true,
		Action: alone(func(c *cli.Context) error {
			page, err := c.App.ToManWithSection(1)
			if err != nil {
				return fmt.Errorf("making the page of the manual: %w", err)
			}
			write(s.Out, page)
			return nil
		}),
	}
}
