// Command bench measures how fast and how large a sandbox is, and prints a table;
// make bench runs it. Each scenario has a fresh sandbox of its own.
//
//	main.go        flags, one scenario after the other
//	bench.go       a sandbox that is measured, and its figures; up and down
//	pods.go        a Deployment on all bases: create, roll, delete; and at rest
//	scale.go       100, 1,000 and 10,000 bases: what one more costs
//	crowd.go       a rolling update over 10,000 bases; 20,000 come up
//	takeover.go    one of two controllers is killed
//	comparison.go  a rolling update as the existing controller was measured, and a crash in it
//	replay.go      what Pods say, held against what their bases serve, at every change
//	verdict.go     one rolling update from run to verdict; the whole catalogue
//	runs.go        koupsandbox scenario run, and what its report says
//	traffic.go     2,000 requests a second; what the gateway adds to a request
//	watch.go       Pods, Leases and Nodes, by one watch each
//	parts.go       what each part uses: processor time, memory, goroutines
//	writes.go      who writes what to the API
//	profile.go     where the processor time goes, and the daemon's memory
//	report.go      the table, JSON, and what it was measured on
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	levels "github.com/koupleless/koupsandbox/sandbox/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	missed, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	case missed:
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	bin, json, only, profile string
	quick, strict            bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "measure with 100 bases instead of 1,000, 10 s of rest, and the rollouts of the catalogue only; targets are not judged")
	f.StringVar(&o.json, "json", "", "write the figures to `FILE` too")
	f.StringVar(&o.only, "only", "", "run only the scenario `NAME`: "+strings.Join(names(), ", "))
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of controller and API server, and the daemon's heap, to `FOLDER`")
	f.StringVar(&o.bin, "bin", "bin", "`FOLDER` with the built programs")
	f.BoolVar(&o.strict, "strict", false, "exit with 1 when a target is missed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.only != "" && !slices.Contains(names(), o.only) {
		return o, fmt.Errorf("-only %q: there are the scenarios %s", o.only, strings.Join(names(), ", "))
	}
	return o, nil
}

func names() []string {
	list := make([]string, len(scenarios))
	for i, s := range scenarios {
		list[i] = s.name
	}
	return list
}

// run measures, prints, and says whether to fail for a missed target.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (missed bool, err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return false, err
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return false, fmt.Errorf("finding the programs: %w", err)
	}
	if err := box.CheckPrograms(o.bin); err != nil {
		return false, err
	}
	home, err := os.MkdirTemp("", "koup-bench-") // a short path, because sockets go there
	if err != nil {
		return false, fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()

	r := report{Quick: o.quick}
	if r.Machine, err = levels.MachineOf(ctx); err != nil {
		return false, err
	}
	for _, s := range scenarios {
		if o.only != "" && o.only != s.name {
			continue
		}
		fmt.Fprintf(stderr, "measuring %s: %s\n", s.name, s.about)
		figures, measureErr := measure(ctx, s, o, home, stderr)
		r.Figures = append(r.Figures, figures...)
		if measureErr != nil { // what was measured is told, too
			err = fmt.Errorf("measuring %s: %w", s.name, measureErr)
			break
		}
	}
	err = errors.Join(err, r.print(stdout))
	if o.json != "" {
		err = errors.Join(err, r.write(o.json))
	}
	return o.strict && r.missed() > 0, err
}
