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
		Name:        "logs",
		Usage:       "print the last log lines of a component, or of all components",
		ArgsUsage:   "[COMPONENT]",
		Description: describe("", "koupsandbox logs --tail 5", "koupsandbox logs -f module-controller"),
		Flags: []cli.Flag{
			sandboxNameFlag(),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "print new lines until Ctrl-C",
				Category: outputCategory},
			&cli.IntFlag{Name: "tail",
				Usage: "`N`: number of lines to print from the end of a log; -1 prints all lines", Value: 20,
				Category: outputCategory},
		},
		Action: withArgs(0, 1, "at most one argument: a component", func(c *cli.Context, list []string) error {
			home, name, err := sandboxTarget(c)
			if err != nil {
				return err
			}
			dir := state.Home(home).Dir(name)
			components, err := logNames(dir)
			if err != nil {
				return err
			}
			if len(list) == 1 && !slices.Contains(components, list[0]) {
				return fmt.Errorf("sandbox %q has no log for component %q; available: %s", name, list[0],
					strings.Join(components, ", "))
			}
			if len(list) == 0 && c.Bool("follow") {
				return usageError{
					fmt.Errorf("--follow requires exactly one component; available: %s",
						strings.Join(components, ", "))}
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

// logNames returns the names of the components that have a log file.
func logNames(dir state.Dir) ([]string, error) {
	files, err := os.ReadDir(dir.Logs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("sandbox %q has no logs; list the sandboxes with: koupsandbox list", dir.Name())
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

// printLog prints the last lines of a log file, or all lines if tail is negative. If follow is true, it also prints
// new lines, and blocks until ctx is done.
func (s *commands) printLog(ctx context.Context, path string, tail int, follow bool) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = f.Close() }() // the file was only read
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

// lastLines returns the offset of the last count lines of a file.
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
