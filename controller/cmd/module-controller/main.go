// Command module-controller is the module controller as a process.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/koupleless/koupsandbox/controller/cmd/module-controller/app"
)

// version is set by the linker.
var version = "dev"

// gcPercent collects twice as often as Go does by default: most of the heap is a cache that lives
// long, and a quiet controller has time to spare but should be small.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := app.New(version).RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "module-controller:", err)
		os.Exit(1)
	}
}
