package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// machine is what it was measured on, without which figures say nothing.
type machine struct {
	CPU    string    `json:"cpu"`
	Cores  int       `json:"cores"`
	Memory uint64    `json:"memoryBytes"`
	Kernel string    `json:"kernel"`
	Go     string    `json:"go"`
	Date   time.Time `json:"date"`
}

func machineOf(ctx context.Context) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Date: time.Now().UTC().Truncate(time.Second), CPU: "(unknown)"}
	cpus, err := cpu.InfoWithContext(ctx)
	if err != nil {
		return m, fmt.Errorf("looking at the machine: %w", err)
	}
	if len(cpus) > 0 && cpus[0].ModelName != "" {
		m.CPU = cpus[0].ModelName
	}
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return m, fmt.Errorf("looking at the machine: %w", err)
	}
	m.Memory = memory.Total
	if m.Kernel, err = host.KernelVersionWithContext(ctx); err != nil {
		return m, fmt.Errorf("looking at the machine: %w", err)
	}
	m.Kernel = runtime.GOOS + " " + m.Kernel
	return m, nil
}

// String is one line.
func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB, %s, %s, %s", m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.Kernel, m.Go,
		m.Date.Format(time.RFC3339))
}
