// Package doctor checks whether a machine can run a sandbox. It reports what is missing, and how to fix it.
package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

const (
	// minDisk is the disk space in bytes that a sandbox with 1,000 bases needs for one hour, mostly for logs.
	minDisk = 500 << 20
	// minMemory is the memory in bytes that a sandbox needs for the control plane (490 MB), the controller, and a
	// daemon with a few bases.
	minMemory = 1 << 30
	// filesWithoutBases is the number of open files that the daemon needs, not counting bases that serve modules.
	// Bases that serve no modules connect through memory and need no open files.
	filesWithoutBases = 100
	// filesPerServingBase is the number of open files that a base that serves modules needs, for its listener and
	// some connections.
	filesPerServingBase = 4
)

// Check is the result of one check.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail describes what the check found.
	Detail string `json:"detail"`
	// Fix describes how to fix the problem if the check failed; otherwise it is empty.
	Fix string `json:"fix,omitempty"`
}

// doctor runs the checks and describes the results in the selected language.
type doctor struct{ language language.Language }

// Run checks whether this machine can run sandboxes with their state in home. containerEngine is docker or podman; if
// it is empty, Run accepts either of them. Names, details and fixes of the checks are in the language l.
func Run(ctx context.Context, l language.Language, home, containerEngine string, binaries sandbox.Binaries) []Check {
	d := doctor{l}
	return []Check{
		d.binary(sandbox.ControlPlaneBinary, binaries.ControlPlane),
		d.binary(sandbox.ControllerBinary, binaries.Controller),
		d.provider(binaries),
		d.engine(ctx, containerEngine),
		d.tools(),
		d.compiler(),
		d.directory(home),
		d.disk(ctx, home),
		d.memory(ctx),
		d.openFiles(),
		d.ports(),
	}
}

// check returns the result of a check with its detail and fix. The fix is empty if ok is true.
func (d doctor) check(ok bool, name, detail, fix language.Text, a args) Check {
	c := Check{Name: name.In(d.language, a), OK: ok, Detail: detail.In(d.language, a)}
	if !ok {
		c.Fix = fix.In(d.language, a)
	}
	return c
}

func (d doctor) binary(name, path string) Check {
	detail := quoted
	if path == "" {
		detail = msgNotFound
	}
	return d.check(path != "", nameBinary, detail, fixNotFound, args{"name": name, "value": path})
}

func (d doctor) provider(binaries sandbox.Binaries) Check {
	detail, ok := msgProviders, binaries.ControlPlane != ""
	if !ok {
		detail = msgNoEmbedded
	}
	return d.check(ok, nameProvider, detail, fixNoEmbedded, args{"embedded": v1alpha1.ProviderEmbedded,
		"existing": v1alpha1.ProviderExisting, "binary": sandbox.ControlPlaneBinary})
}

// engine checks whether a container engine is available. The check also succeeds without a container engine, because
// only the provider kind requires one.
func (d doctor) engine(ctx context.Context, name string) Check {
	detail := msgEngine
	image, err := kind.LocalImage(ctx, name)
	if err != nil {
		detail = msgNoEngine
	}
	return d.check(true, nameEngine, detail, language.Text{},
		args{"kind": v1alpha1.ProviderKind, "image": image, "error": err})
}

// directory checks whether the state directory is writable, or can be created in its nearest existing parent. It
// removes the directories and files that it creates.
func (d doctor) directory(home string) Check {
	probe, err := os.MkdirTemp(nearestExisting(home), ".doctor-")
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		return d.check(false, nameDirectory, quoted, fixDirectory, args{"value": err})
	}
	return d.check(true, nameDirectory, quoted, fixDirectory, args{"value": home})
}

func (d doctor) disk(ctx context.Context, home string) Check {
	a := args{"minimum": bytes(minDisk)}
	usage, err := disk.UsageWithContext(ctx, nearestExisting(home))
	if err != nil {
		a["value"] = err
		return d.check(false, nameDisk, quoted, fixDisk, a)
	}
	a["value"] = bytes(usage.Free)
	return d.check(usage.Free >= minDisk, nameDisk, quoted, fixDisk, a)
}

// nearestExisting returns the given directory if it exists, otherwise its nearest existing parent.
func nearestExisting(directory string) string {
	for {
		if _, err := os.Stat(directory); err == nil || directory == filepath.Dir(directory) {
			return directory
		}
		directory = filepath.Dir(directory)
	}
}

func (d doctor) memory(ctx context.Context) Check {
	a := args{"minimum": bytes(minMemory)}
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		a["value"] = err
		return d.check(false, nameMemory, quoted, fixMemory, a)
	}
	a["value"] = bytes(m.Available)
	return d.check(m.Available >= minMemory, nameMemory, quoted, fixMemory, a)
}

func (d doctor) openFiles() Check {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return d.check(false, nameFiles, quoted, fixFiles, args{"value": err})
	}
	// Go raises the soft limit to the hard limit when a process starts.
	files := limit.Max
	serving := (max(files, filesWithoutBases) - filesWithoutBases) / filesPerServingBase
	return d.check(serving >= 1000, nameFiles, msgFiles, fixFiles,
		args{"limit": files, "bases": v1alpha1.MaxBases, "serving": min(serving, v1alpha1.MaxBases)})
}

func (d doctor) ports() Check {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return d.check(false, namePorts, quoted, fixPorts, args{"value": err})
	}
	_ = l.Close() // no connection was accepted
	return d.check(true, namePorts, msgPorts, fixPorts, nil)
}

func bytes(n uint64) string {
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
