package box

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/koupleless/koupsandbox/sandbox"
)

// Process is a process of a sandbox. The PID and the start time identify the process.
type Process struct {
	Component string
	PID       int32
	created   int64 // start time in milliseconds since 1970
}

// Processes returns the running processes of a sandbox, including the daemon. It also works if the daemon does not
// run.
func (b *Box) Processes(ctx context.Context) ([]Process, error) {
	status, err := sandbox.Inspect(ctx, b.Home, b.Name, false)
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, c := range status.Components {
		pid := int32(c.PID) //nolint:gosec // a PID fits into 32 bits
		if pid == 0 || slices.ContainsFunc(list, func(p Process) bool { return p.PID == pid }) {
			continue // a component in the daemon; the daemon is the first component
		}
		if p, err := byPID(ctx, c.Name, pid); err == nil && p.Running(ctx) {
			list = append(list, p)
		}
	}
	return list, nil
}

func byPID(ctx context.Context, component string, pid int32) (Process, error) {
	p := Process{Component: component, PID: pid}
	found, err := process.NewProcessWithContext(ctx, pid)
	if err == nil {
		p.created, err = found.CreateTimeWithContext(ctx)
	}
	if err != nil {
		return p, fmt.Errorf("reading process %[2]d of %[1]s: %[3]w", component, pid, err)
	}
	return p, nil
}

// Find returns the process of a component from a list of processes.
func Find(list []Process, component string) (Process, error) {
	for _, p := range list {
		if p.Component == component {
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("component %s has no running process", component)
}

// Running reports whether the process is running and is not a zombie.
func (p Process) Running(ctx context.Context) bool {
	found, ok := p.find(ctx)
	if !ok {
		return false
	}
	status, err := found.StatusWithContext(ctx)
	return err == nil && !slices.Contains(status, process.Zombie)
}

// Kill kills the process if it is still running.
func (p Process) Kill(ctx context.Context) error {
	if _, ok := p.find(ctx); !ok {
		return nil
	}
	if err := syscall.Kill(int(p.PID), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing process %[2]d of %[1]s: %[3]w", p.Component, p.PID, err)
	}
	return nil
}

// Usage returns the resident memory in bytes and the total CPU time in seconds.
func (p Process) Usage(ctx context.Context) (rss uint64, cpu float64, err error) {
	found, ok := p.find(ctx)
	if !ok {
		return 0, 0, fmt.Errorf("process %[2]d of %[1]s has ended", p.Component, p.PID)
	}
	memory, err := found.MemoryInfoWithContext(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of %s: %w", p.Component, err)
	}
	times, err := found.TimesWithContext(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the CPU time of %s: %w", p.Component, err)
	}
	return memory.RSS, times.User + times.System, nil
}

func (p Process) find(ctx context.Context) (*process.Process, bool) {
	found, err := process.NewProcessWithContext(ctx, p.PID)
	if err != nil {
		return nil, false
	}
	created, err := found.CreateTimeWithContext(ctx)
	return found, err == nil && created == p.created
}
