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
		Usage: "show a lossless release and a lossy release side by side",
		Description: describe(
			`Creates its own sandbox, releases a module in two ways while requests are sent, prints the
events, and stops the sandbox. The demo takes about 20 seconds. Exit status: 0 if the
results are as expected, 1 otherwise.`,
			"koupsandbox demo", "koupsandbox demo --html demo.html"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME`: name of the sandbox that the demo creates", Value: "demo",
				Category: sandboxCategory},
			&cli.BoolFlag{Name: "keep", Usage: "keep the sandbox, its bases and its Pods running after the demo",
				Category: sandboxCategory},
			&cli.BoolFlag{Name: "report", Category: outputCategory,
				Usage: "write a report with the timelines of both releases to " + demoReport},
			&cli.StringFlag{Name: "html", Usage: "`FILE`: write the HTML report to FILE instead of koupsandbox-demo.html",
				Category: outputCategory},
		},
		Action: noArgs(s.runDemo),
	}
}

func (s *commands) runDemo(c *cli.Context) error {
	home, name, err := sandboxTarget(c)
	if err != nil {
		return err
	}
	start := time.Now()
	printer := progress.NewPrinter(s.Err, progress.PrinterOptions{Terminal: s.Terminal, Width: s.Width})
	ready := sync.OnceFunc(printer.Close)
	defer ready()
	options := demo.Options{
		Home: home, Name: name, Binaries: sandbox.FindBinaries(s.Executable, c.String(binFlag)), Keep: c.Bool("keep"),
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
	s.printDemoEnd(options, time.Since(start))
	return demo.CheckResult(result)
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
	printf(s.Out, "\nReport with both timelines: %s\n", path)
	return nil
}

func (s *commands) printDemoEnd(o demo.Options, took time.Duration) {
	if !o.Keep {
		printf(s.Out, "\nThe demo took %.0fs; its sandbox was removed. To create a sandbox, run: koupsandbox up\n",
			took.Seconds())
		return
	}
	name := nameArgument(o.Name)
	printf(s.Out, "\nThe sandbox is still running. List its bases with: koupsandbox base list%s -o wide\nTake "+
		"it down with: "+
		"koupsandbox down%s\n", name, name)
}
