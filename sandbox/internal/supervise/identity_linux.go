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

// bootID changes with every boot, so that a start time counted from boot is unique for ever.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// inspect reads /proc. The start time is kept as the kernel counts it, in ticks since boot: as a
// time of day it would move whenever the clock is set, and a record from before would no longer
// match.
func inspect(pid int) (usage, error) {
	boot, err := bootID()
	if err != nil {
		return usage{}, fmt.Errorf("reading the boot id: %w", err)
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
		// With threads left it is still ending: its files and ports stay open until the last one
		// goes.
		return usage{}, errNoProcess
	}
	return usage{
		start:   fmt.Sprintf("%s/%d", boot, stat.Starttime),
		stopped: stat.State == "T" || stat.State == "t",
		rss:     uint64(max(stat.ResidentMemory(), 0)),
		cpu:     time.Duration(stat.CPUTime() * float64(time.Second)),
	}, nil
}
