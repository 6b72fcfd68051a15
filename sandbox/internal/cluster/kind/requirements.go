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
	// minMemory is what a node with a control plane needs: about 900 MB, and as much again for
	// caches.
	minMemory = 2 << 30
	// minDisk is what a node writes in its first minutes, with room for logs.
	minDisk = 1 << 30
)

// checkEngine says in one sentence what an engine lacks for a cluster.
func checkEngine(ctx context.Context, e *engine.Engine) error {
	if e.Memory > 0 && e.Memory < minMemory {
		return fmt.Errorf("%s has %.1f GB of memory and a cluster of kind needs %.1f: give it more, or use "+
			"--provider embedded",
			e.Command, float64(e.Memory)/1e9, float64(minMemory)/1e9)
	}
	switch { // as kind itself refuses, but before anything was begun
	case e.Rootless && e.CgroupV1:
		return fmt.Errorf("%s runs without root and this machine has cgroups v1, where a cluster of kind cannot: run %s as root, or use --provider embedded",
			e.Command, e.Command)
	case e.Rootless && !e.Controllers:
		return fmt.Errorf("%s runs without root and may not limit CPU, memory and processes: let systemd give it that with Delegate=yes "+
			"(https://kind.sigs.k8s.io/docs/user/rootless/), or use --provider embedded", e.Command)
	case e.Root == "":
		return nil
	}
	// A directory of another machine, such as Docker Desktop's, is not ours to look at.
	if usage, err := disk.UsageWithContext(ctx, e.Root); err == nil && usage.Free < minDisk {
		return fmt.Errorf("the disk of %s (%s) has %.1f GB free and a cluster of kind needs %.1f: remove images that "+
			"nobody uses (%s image prune)",
			e.Command, e.Root, float64(usage.Free)/1e9, float64(minDisk)/1e9, e.Command)
	}
	return nil
}

const (
	// inotifyLimit is where Linux says how many watchers of files a user may have at once.
	inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"
	// minInotify is enough for some clusters: the programs of one take about 30, and those of all
	// clusters are the same user's.
	minInotify = 512
)

// checkInotify returns an error if the machine has few inotify instances, the most common reason why another cluster
// does not start. It returns nil if the limit cannot be read.
func checkInotify(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // another system, or one that does not tell
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || limit >= minInotify {
		return nil //nolint:nilerr // as above
	}
	return fmt.Errorf("fs.inotify.max_user_instances is %d, which a few clusters use up: if others run here, raise "+
		"it with: sysctl -w fs.inotify.max_user_instances=%d",
		limit, minInotify)
}

// providerOption is how kind is told of the engine.
func providerOption(e *engine.Engine) cluster.ProviderOption {
	if e.Command == engine.Podman {
		return cluster.ProviderWithPodman()
	}
	return cluster.ProviderWithDocker()
}
