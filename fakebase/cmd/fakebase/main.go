// Command fakebase runs simulated Koupleless bases for any module controller until it receives a signal.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/koupleless/koupsandbox/fakebase/cmd/fakebase/app"
)

// version is the version of the fakebase binary. The linker sets it.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	if err := app.New(version, os.Stdout, os.Stderr).RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "fakebase:", err)
		os.Exit(1)
	}
}
