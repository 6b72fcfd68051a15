package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

const (
	followPoll = 100 * time.Millisecond
	logSuffix  = ".log"
)

func (s *commands) logs() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print the log of a component, or the end of all logs",
		ArgsUsage: "[COMPONENT]",
		Flags: []cli.Flag{
			sandboxNameFlag(),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until Ctrl-C"},
			&cli.IntFlag{Name: "tail", Usage: "begin with the last `N` lines; -1 = all", Value: 20},
		},
		Action: withArgs(0, 1, "one component", func(c *cli.Context, list []string) error {
			folder, name, err := sandboxTarget(c)
			if err != nil {
				return err
			}
			dir := state.Home(folder).Dir(name)
			components, err := logNames(dir)
			if err != nil {
				return err
			}
			if len(list) == 1 && !slices.Contains(components, list[0]) {
				return fmt.Errorf("sandbox %q has no log of %q; there are: %s", name, list[0],
					strings.Join(components, ", "))
			}
			if len(list) == 0 && c.Bool("follow") {
				return usageError{
					fmt.Errorf("logs --follow takes one component of: %s", strings.Join(components, ", "))}
			}
			if len(list) == 1 {
				return s.printLog(c.Context, dir.Log(list[0]), c.Int("tail"), c.Bool("follow"))
			}
			for _, component := range components {
				printf(s.Out, "==> %s <==\n", component)
				if err := s.printLog(c.Context, dir.Log(component), c.Int("tail"), false); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func logNames(dir state.Dir) ([]string, error) {
	files, err := os.ReadDir(dir.Logs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("sandbox %q has no logs: it is not up; see: koupsandbox list", dir.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("listing the logs: %w", err)
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), logSuffix); ok && filepath.Ext(f.Name()) == logSuffix {
			names = append(names, name)
		}
	}
	return names, nil
}

// log prints the last lines of a file, all if tail is negative, and what is added
// to it until ctx ends if follow is true.
func (s *commands) printLog(ctx context.Context, path string, tail int, follow bool) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if tail >= 0 {
		start, err := lastLines(f, tail)
		if err == nil {
			_, err = f.Seek(start, io.SeekStart)
		}
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
	}
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for {
		if _, err := io.Copy(s.Out, f); err != nil {
			return fmt.Errorf("printing the log: %w", err)
		}
		if !follow {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func lastLines(f io.Reader, count int) (int64, error) {
	starts := []int64{0}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			starts = append(starts, starts[len(starts)-1]+int64(len(line)))
			starts = starts[max(0, len(starts)-count-1):]
		}
		if errors.Is(err, io.EOF) {
			return starts[0], nil
		}
		if err != nil {
			return 0, err
		}
	}
}
