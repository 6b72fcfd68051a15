// Command koupsandbox puts a whole Koupleless platform on one machine.
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
		os.Exit(first())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	s := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	out := term.IsTerminal(int(os.Stdout.Fd()))
	s.Screen = out && term.IsTerminal(int(os.Stdin.Fd()))
	s.Color = out && os.Getenv("NO_COLOR") == "" // https://no-color.org
	s.UserHome, _ = os.UserHomeDir()             // without one, --home must be given
	s.Self, _ = os.Executable()                  // without it, up says that it is missing
	s.Language = language.FromEnvironment(os.Getenv)
	if fd := int(os.Stderr.Fd()); term.IsTerminal(fd) {
		s.Terminal = true
		s.Width, _, _ = term.GetSize(fd) // 0 is fine
	}
	os.Exit(cli.Run(ctx, s, os.Args))
}
