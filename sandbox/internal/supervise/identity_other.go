//go:build !linux

package supervise

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// inspect reads the data of a process with gopsutil. On macOS, the kernel records the start time when the process
// starts, and the recorded time does not change when the clock is set.
func inspect(pid int) (usage, error) {
	p, err := process.NewProcess(int32(pid))
	if errors.Is(err, process.ErrorProcessNotRunning) {
		return usage{}, errNoProcess
	}
	if err != nil {
		return usage{}, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	created, err := p.CreateTime()
	if err != nil {
		return usage{}, fmt.Errorf("reading the start time of process %d: %w", pid, err)
	}
	u := usage{start: strconv.FormatInt(created, 10)}
	if state, err := p.Status(); err == nil {
		if slices.Contains(state, process.Zombie) {
			return usage{}, errNoProcess
		}
		u.stopped = slices.Contains(state, process.Stop)
	}
	if mem, err := p.MemoryInfo(); err == nil {
		u.rss = mem.RSS
	}
	if times, err := p.Times(); err == nil {
		u.cpu = time.Duration((times.User + times.System) * float64(time.Second))
	}
	return u, nil
}
