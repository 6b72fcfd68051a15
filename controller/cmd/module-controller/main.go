// Command module-controller runs the bundled module controller.
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

// version is the program version, set by the linker.
var version = "dev"

// gcPercent is half of Go's default GOGC value. Most of the heap is a long-lived cache, so more frequent collections
// save memory and cost little CPU time.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	if err := app.New(version).RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "module-controller:", err)
		os.Exit(1)
	}
}
