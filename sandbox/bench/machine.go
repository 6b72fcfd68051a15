package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// Machine is what it was measured on, without which figures say nothing.
type Machine struct {
	Name   string    `json:"name"`
	CPU    string    `json:"cpu"`
	Cores  int       `json:"cores"`
	Memory uint64    `json:"memoryBytes"`
	Kernel string    `json:"kernel"`
	Go     string    `json:"go"`
	Date   time.Time `json:"date"`
}

// MachineOf looks at this machine, now.
func MachineOf(ctx context.Context) (Machine, error) {
	name, nameErr := os.Hostname()
	cpus, cpuErr := cpu.InfoWithContext(ctx)
	memory, memoryErr := mem.VirtualMemoryWithContext(ctx)
	kernel, kernelErr := host.KernelVersionWithContext(ctx)
	if err := errors.Join(nameErr, cpuErr, memoryErr, kernelErr); err != nil {
		return Machine{}, fmt.Errorf("looking at the machine: %w", err)
	}
	m := Machine{Name: name, Cores: runtime.NumCPU(), Memory: memory.Total, Kernel: runtime.GOOS + " " + kernel, Go: runtime.Version(),
		Date: time.Now().UTC().Truncate(time.Second), CPU: "(unknown)"}
	if len(cpus) > 0 && cpus[0].ModelName != "" {
		m.CPU = cpus[0].ModelName
	}
	return m, nil
}

// String is one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", m.hardware(), m.Kernel, m.Go, m.Date.Format(time.RFC3339))
}

// hardware is what makes a machine as fast as it is; the memory that a kernel leaves differs a little from
// one start to the next.
func (m Machine) hardware() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB", m.CPU, m.Cores, float64(m.Memory)/(1<<30))
}
