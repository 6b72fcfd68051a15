package base

import (
	"strings"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Growth is the metaspace that past releases have left behind on a base. The zero value means that no release was
// measured.
type Growth struct {
	// Bytes is the growth of the used metaspace over Releases. It is 0 if the usage has not grown.
	Bytes int64
	// Releases is the number of module versions that were uninstalled in this time.
	Releases int
}

// maxModuleSets limits the memory of growthTracker.
const maxModuleSets = 16

// growthTracker measures the Growth of one JVM. It compares only used metaspace, and only usages with the same module
// names, each with one active version. The JVM frees classes only during garbage collection, so the tracker compares
// with the lowest usage. The zero value is ready for use.
type growthTracker struct {
	growth      Growth
	uninstalled int
	lowest      map[string]usage // by module names
}

// usage is a used metaspace in bytes, with the number of uninstalled versions at that time.
type usage struct {
	used        int64
	uninstalled int
}

// listed records a change of the module list.
func (t *growthTracker) listed(before, after []arklet.Biz) {
	remaining := map[arklet.Module]bool{}
	for _, m := range after {
		remaining[m.Module()] = true
	}
	for _, m := range before {
		if !remaining[m.Module()] {
			t.uninstalled++
		}
	}
}

// measured records the used metaspace with the given modules, which are sorted by name. It ignores arklet.Unlimited.
func (t *growthTracker) measured(used int64, modules []arklet.Biz) {
	if used < 0 {
		return
	}
	var names []string
	for i, m := range modules {
		if m.State != arklet.StateActivated || i > 0 && modules[i-1].Name == m.Name {
			return // a module is being replaced
		}
		names = append(names, m.Name)
	}
	key := strings.Join(names, ",")
	lowest, known := t.lowest[key]
	if releases := t.uninstalled - lowest.uninstalled; known && releases > 0 {
		t.growth = Growth{Bytes: max(used-lowest.used, 0), Releases: releases}
	}
	if known && used >= lowest.used {
		return
	}
	if t.lowest == nil || len(t.lowest) >= maxModuleSets {
		t.lowest = map[string]usage{}
	}
	t.lowest[key] = usage{used, t.uninstalled}
}
