package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// runAsInit makes this process the init process of a container. It runs the command line in a child process, forwards
// signals to the child, and reaps orphaned processes. It blocks until the child exits, and returns the exit status of
// the child. The container runtime kills the remaining processes.
func runAsInit() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec // it runs the same binary
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "koupsandbox:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // the child may have exited
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			fmt.Fprintln(os.Stderr, "koupsandbox: waiting for processes:", err)
			return 1
		case pid == cmd.Process.Pid && status.Signaled():
			return 128 + int(status.Signal())
		case pid == cmd.Process.Pid:
			return status.ExitStatus()
		}
	}
}
