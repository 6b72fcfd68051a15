// Package doctor checks what a machine must have for a sandbox, and says what to
// do about what it lacks.
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
)

const (
	// minDisk is what a sandbox of 1,000 bases and an hour of logs need.
	minDisk = 500 << 20
	// minMemory is what control plane (490 MB), controller and daemon need with
	// some bases.
	minMemory = 1 << 30
	// filesWithoutBases is how many files the daemon has open however many bases
	// there are: they connect through memory.
	filesWithoutBases = 100
	// filesPerServingBase is how many files a base needs that serves modules: its
	// listener, and some connections.
	filesPerServingBase = 4
)

// Check is one finding.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail says what was found.
	Detail string `json:"detail"`
	// Fix says what to do when it is not OK.
	Fix string `json:"fix,omitempty"`
}

// Run does all checks for sandboxes in home; containerEngine is docker or podman, or empty for
// either.
func Run(ctx context.Context, home, containerEngine string, programs sandbox.Binaries) []Check {
	return []Check{
		program(sandbox.ControlPlaneBinary, programs.ControlPlane),
		program(sandbox.ControllerBinary, programs.Controller),
		provider(programs),
		engine(ctx, containerEngine),
		writable(home),
		freeDisk(ctx, home),
		freeMemory(ctx),
		openFiles(),
		ports(),
	}
}

func program(name, path string) Check {
	c := Check{Name: "program " + name, OK: path != "", Detail: path}
	if !c.OK {
		c.Detail = "not found"
		c.Fix = "put it beside koupsandbox, or name its folder in $KOUPSANDBOX_BIN"
	}
	return c
}

func provider(programs sandbox.Binaries) Check {
	c := Check{Name: "provider", OK: true,
		Detail: fmt.Sprintf("%s is at hand; %s needs --context", v1alpha1.ProviderEmbedded, v1alpha1.ProviderExisting)}
	if programs.ControlPlane == "" {
		c.OK = false
		c.Detail = fmt.Sprintf("%s needs %s", v1alpha1.ProviderEmbedded, sandbox.ControlPlaneBinary)
		c.Fix = "install it, or use --provider existing with --context"
	}
	return c
}

func engine(ctx context.Context, name string) Check {
	c := Check{Name: "container engine", OK: true}
	image, err := kind.LocalImage(ctx, name)
	if err != nil {
		c.Detail = fmt.Sprintf("not needed; for the provider %s: %v", v1alpha1.ProviderKind, err)
		return c
	}
	c.Detail = fmt.Sprintf("the provider %s is at hand, with %s", v1alpha1.ProviderKind, image)
	return c
}

// writable tells whether the folder can be written to, or made in the nearest one above it that there
// is. Nothing is left.
func writable(home string) Check {
	c := Check{Name: "state folder", Detail: home}
	probe, err := os.MkdirTemp(nearest(home), ".doctor-")
	if err == nil {
		err = os.Remove(probe)
	}
	c.OK = err == nil
	if err != nil {
		c.Detail = err.Error()
		c.Fix = "choose a folder that you may write to with --home or $KOUPSANDBOX_HOME"
	}
	return c
}

func freeDisk(ctx context.Context, home string) Check {
	c := Check{Name: "free disk",
		Fix: fmt.Sprintf("free %s on the disk of the state folder, or choose another with --home", bytes(minDisk))}
	if usage, err := disk.UsageWithContext(ctx, nearest(home)); err != nil {
		c.Detail = err.Error()
	} else {
		c.OK, c.Detail = usage.Free >= minDisk, bytes(usage.Free)
	}
	return c.done()
}

// nearest is the folder, or the nearest one above it that there is.
func nearest(folder string) string {
	for {
		if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

func freeMemory(ctx context.Context) Check {
	c := Check{Name: "free memory", Fix: fmt.Sprintf("end other programs until %s are free", bytes(minMemory))}
	if m, err := mem.VirtualMemoryWithContext(ctx); err != nil {
		c.Detail = err.Error()
	} else {
		c.OK, c.Detail = m.Available >= minMemory, bytes(m.Available)
	}
	return c.done()
}

func openFiles() Check {
	c := Check{Name: "open files", Fix: "raise the limit: ulimit -n 65536"}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		c.Detail = err.Error()
		return c
	}
	// Go raises the soft limit to the hard one when a program starts.
	files := limit.Max
	serving := (max(files, filesWithoutBases) - filesWithoutBases) / filesPerServingBase
	c.OK = serving >= 1000
	c.Detail = fmt.Sprintf("limit %d: enough for %d bases, %d of them serving modules at once", files,
		v1alpha1.MaxBases, min(serving, v1alpha1.MaxBases))
	return c.done()
}

func ports() Check {
	c := Check{Name: "loopback ports", Fix: "let programs listen on 127.0.0.1"}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	_ = l.Close() // nothing was sent
	c.OK, c.Detail = true, "free ports of 127.0.0.1 can be had"
	return c.done()
}

func (c Check) done() Check {
	if c.OK {
		c.Fix = ""
	}
	return c
}

func bytes(n uint64) string {
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
