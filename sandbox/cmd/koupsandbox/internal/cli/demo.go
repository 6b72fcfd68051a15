package cli

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/demo"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

const demoReport = "koupsandbox-demo.html"

func (s *commands) demo() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "show a release that loses no request, and one that does, side by side",
		Description: `Brings a sandbox of its own up, releases a module there in two ways under requests,
tells what happens, and takes the sandbox down. It takes about twenty seconds. Exit
status 1 says that something else happened than what the demo wants to show.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME` of the demo's sandbox", Value: "demo"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the sandbox up, with the bases and Pods of the demo"},
			&cli.BoolFlag{Name: "report",
				Usage: "write " + demoReport + " into this folder, with the timelines of both"},
			&cli.StringFlag{Name: "html", Usage: "write that report to `FILE`"},
		},
		Action: alone(s.runDemo),
	}
}

func (s *commands) runDemo(c *cli.Context) error {
	folder, name, err := target(c)
	if err != nil {
		return err
	}
	start := time.Now()
	printer := progress.NewPrinter(s.Err, progress.PrinterOptions{Terminal: s.Terminal, Width: s.Width})
	ready := sync.OnceFunc(printer.Close)
	defer ready()
	options := demo.Options{
		Home: folder, Name: name, Binaries: sandbox.FindBinaries(s.Self, c.String(binFlag)), Keep: c.Bool("keep"),
		Progress: printer.Event, Ready: ready, Out: s.Out, Color: s.Color,
	}
	if s.Screen {
		options.Width = s.Width
	}
	result, err := demo.Run(c.Context, options)
	if err != nil {
		return err
	}
	if err := s.saveDemo(c, result); err != nil {
		return err
	}
	s.tellDemo(options, time.Since(start))
	return demo.Verdict(result)
}

func (s *commands) saveDemo(c *cli.Context, result *scenario.Report) error {
	path := c.String("html")
	switch {
	case path != "":
	case c.Bool("report"):
		path = demoReport
	default:
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := report.Save(path, result, report.WriteHTML); err != nil {
		return err
	}
	say(s.Out, "\nThe timelines of both: %s\n", path)
	return nil
}

func (s *commands) tellDemo(o demo.Options, took time.Duration) {
	if !o.Keep {
		say(s.Out, "\nAll of it took %.0fs, and the sandbox is gone again. A sandbox of your own: koupsandbox up\n",
			took.Seconds())
		return
	}
	name := nameArgument(o.Name)
	say(s.Out, "\nThe sandbox is still up. Look around: koupsandbox base list%s -o wide\nTake it down with: "+
		"koupsandbox down%s\n", name, name)
}
