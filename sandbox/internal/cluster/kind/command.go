package kind

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// run runs a command and returns what it prints, without the white space around it. An error holds the line that was run and the
// last line of what it said.
func run(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = stdin
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		if said := lastLine(stderr.String()); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
	}
	return strings.TrimSpace(stdout.String()), err
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
