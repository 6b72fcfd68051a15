package kind

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/disk"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// minMemory is the memory in bytes for a control plane node: about 900 MB, and the same amount for caches.
	minMemory = 2 << 30
	// minDisk is the disk space in bytes that a node uses in its first minutes, plus a reserve for logs.
	minDisk = 1 << 30
)

// checkEngine returns an error if an engine does not meet the requirements of a kind cluster.
func checkEngine(ctx context.Context, e *engine.Engine) error {
	if e.Memory > 0 && e.Memory < minMemory {
		return fmt.Errorf("%s has %.1f GB of memory, but a kind cluster needs %.1f GB; increase the memory, or use "+
			"--provider embedded", e.Command, float64(e.Memory)/1e9, float64(minMemory)/1e9)
	}
	switch { // kind has the same checks, but after it has created containers
	case e.Rootless && e.CgroupV1:
		return fmt.Errorf("%s is rootless and this machine has cgroups v1, which kind does not support; run "+
			"%s as root, or use --provider embedded",
			e.Command, e.Command)
	case e.Rootless && !e.Controllers:
		return fmt.Errorf("%s is rootless and has no permission to limit CPU, memory and processes; enable "+
			"Delegate=yes in systemd (https://kind.sigs.k8s.io/docs/user/rootless/), or use --provider embedded",
			e.Command)
	case e.Root == "":
		return nil
	}
	// The directory may be on another machine, such as the virtual machine of Docker Desktop.
	if usage, err := disk.UsageWithContext(ctx, e.Root); err == nil && usage.Free < minDisk {
		return fmt.Errorf("the disk of %s (%s) has %.1f GB free, but a kind cluster needs %.1f GB; remove "+
			"unused images "+
			"with: %s image prune",
			e.Command, e.Root, float64(usage.Free)/1e9, float64(minDisk)/1e9, e.Command)
	}
	return nil
}

const (
	// inotifyLimit is the path of the kernel setting for the maximum number of inotify instances per user.
	inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"
	// minInotify is the minimum value of inotifyLimit. It is enough for several clusters: the processes of one
	// cluster use about 30 inotify instances, and the processes of all clusters belong to the same user.
	minInotify = 512
)

// checkInotify returns an error if the inotify limit in the file path is too low, which is the most common reason why
// an additional cluster does not start. If the limit cannot be read, checkInotify returns nil.
func checkInotify(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // not available on other systems
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || limit >= minInotify {
		return nil //nolint:nilerr // as above
	}
	return fmt.Errorf("fs.inotify.max_user_instances is %d, which is too low for several clusters; increase the limit "+
		"with: sysctl -w fs.inotify.max_user_instances=%d", limit, minInotify)
}

// providerOption returns the kind option that selects the engine.
func providerOption(e *engine.Engine) cluster.ProviderOption {
	if e.Command == engine.Podman {
		return cluster.ProviderWithPodman()
	}
	return cluster.ProviderWithDocker()
}
