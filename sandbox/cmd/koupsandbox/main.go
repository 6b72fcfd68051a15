// Command koupsandbox runs a complete Koupleless platform on one machine.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/cli"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

func main() {
	if os.Getpid() == 1 {
		os.Exit(runAsInit())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process immediately
	s := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	out := term.IsTerminal(int(os.Stdout.Fd()))
	s.Screen = out && term.IsTerminal(int(os.Stdin.Fd()))
	s.Color = out && os.Getenv("NO_COLOR") == "" // https://no-color.org
	s.UserHome, _ = os.UserHomeDir()             // if it is unknown, --home is required
	s.Executable, _ = os.Executable()            // if it is unknown, up fails with an error that names it
	s.Language = language.FromEnvironment(os.Getenv)
	if fd := int(os.Stderr.Fd()); term.IsTerminal(fd) {
		s.Terminal = true
		s.Width, _, _ = term.GetSize(fd) // 0 selects the default width
	}
	os.Exit(cli.Run(ctx, s, os.Args))
}
