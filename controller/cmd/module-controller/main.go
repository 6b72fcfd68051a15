// Command module-controller is the module controller as a process. It is
// configured by the environment variables of Module Controller V2 document 5.4,
// each of which is a flag too.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := newApp().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "module-controller:", err)
		os.Exit(1)
	}
}
