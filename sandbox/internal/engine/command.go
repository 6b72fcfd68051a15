package engine

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Run runs a command of the engine, such as `docker info`, and returns the trimmed output even if the command fails.
// It blocks until the command ends. When ctx ends, the command is killed. An error contains the command line and the
// last line of standard error.
func (e *Engine) Run(ctx context.Context, args ...string) (string, error) {
	return Output(ctx, exec.CommandContext(ctx, e.Command, args...), 1)
}

// Load loads an image archive into the engine. The function write produces the archive. Load blocks like Run.
func (e *Engine) Load(ctx context.Context, write func(io.Writer) error) error {
	cmd := exec.CommandContext(ctx, e.Command, "load", "--quiet")
	read, send := io.Pipe()
	cmd.Stdin = read
	defer func() { _ = read.Close() }()                  // it ends write; closing a pipe does not fail
	go func() { _ = send.CloseWithError(write(send)) }() // the command's Stdin gets the error
	_, err := Output(ctx, cmd, 1)
	return err
}

// Output runs cmd, which must have been created with ctx, and returns the trimmed standard output. An error contains
// the command line and the last lines of standard error; the parameter lines is their maximum number. Output sets
// cmd.Stdout and cmd.Stderr.
func Output(ctx context.Context, cmd *exec.Cmd, lines int) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		switch said := lastLines(stderr.String(), lines); {
		case strings.Contains(said, "\n"):
			err = fmt.Errorf("%w\n%s", err, said)
		case said != "":
			err = fmt.Errorf("%w: %s", err, said)
		}
	}
	return strings.TrimSpace(stdout.String()), err
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
