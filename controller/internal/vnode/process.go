package vnode

import (
	"crypto/rand"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
)

// A process is one run of a controller. Its name is on the Lease of the controller (labels.Process), because
// a CLIENT_ID alone does not tell a restarted controller from two controllers that have the same CLIENT_ID.
// The name is PLACE/RANDOM. PLACE identifies the boot of the machine and the network namespace, or is empty if
// the process is not marked.
//
// A process marks itself as running by an abstract Unix socket, whose name has the scope of the network
// namespace and which the kernel removes when the process ends, however it ends. A process that is restarted
// in the same Pod, or on the same machine, so knows that its predecessor has ended.
type process struct {
	name string
	mark io.Closer // nil if the process is not marked
}

// startProcess marks this process as running if the system can do that, which Linux can.
func startProcess() *process {
	p := &process{name: "/" + rand.Text()}
	place := placeOf()
	if place == "" {
		return p
	}
	if mark, err := markProcess(p.name); err == nil {
		p.name, p.mark = place+p.name, mark
	}
	return p
}

// placeOf returns the place of this process; empty if it is not known.
func placeOf() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "." + namespace
}

func markProcess(name string) (io.Closer, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@module-controller" + name})
}

// hasEnded reports whether the process of that name is known to have ended. It returns false for a process of
// another place, which may still run.
func hasEnded(name string) bool {
	place, random, _ := strings.Cut(name, "/")
	if place == "" || place != placeOf() {
		return false
	}
	mark, err := markProcess("/" + random)
	if err != nil {
		return false
	}
	return mark.Close() == nil
}

func (p *process) end() {
	if p.mark != nil {
		_ = p.mark.Close() // closing a listener has no error that matters
	}
}
