package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// bootID returns an ID that changes with every boot. Start times are relative to the boot, so the ID makes them
// unique across boots.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// inspect reads the data of a process from /proc. The start time is in clock ticks since boot. Unlike a time of day,
// it does not change when the clock is set, so that it still matches the run record.
func inspect(pid int) (usage, error) {
	boot, err := bootID()
	if err != nil {
		return usage{}, fmt.Errorf("reading the boot ID: %w", err)
	}
	var stat procfs.ProcStat
	proc, err := procfs.NewProc(pid)
	if err == nil {
		stat, err = proc.Stat()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return usage{}, errNoProcess
	case err != nil:
		return usage{}, fmt.Errorf("reading the state of process %d: %w", pid, err)
	case stat.State == "X", stat.State == "Z" && stat.NumThreads <= 1:
		// A zombie with remaining threads is still ending. Its files and ports stay open until the last thread ends.
		return usage{}, errNoProcess
	}
	return usage{
		start:   fmt.Sprintf("%s/%d", boot, stat.Starttime),
		stopped: stat.State == "T" || stat.State == "t",
		rss:     uint64(max(stat.ResidentMemory(), 0)),
		cpu:     time.Duration(stat.CPUTime() * float64(time.Second)),
	}, nil
}
