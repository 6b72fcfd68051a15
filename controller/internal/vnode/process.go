package vnode

import (
	"crypto/rand"
	"net"
	"os"
	"strings"
)

// process is one run of a controller. The Lease of the controller contains the name of the process (labels.Process),
// because a restarted controller and a second controller can have the same CLIENT_ID. The name is PLACE/RANDOM.
//
// On Linux, a running process holds an abstract Unix socket with its name. The kernel removes the socket when the
// process ends, so another process with the same PLACE can detect that the process has ended. PLACE consists of the
// boot ID of the machine and the network namespace, which together are the scope of the socket. PLACE is empty for a
// process without a socket.
type process struct {
	name string
	// accepts no connections; this reference prevents the garbage collector from closing the socket
	listener *net.UnixListener
}

func startProcess() *process {
	p := &process{name: "/" + rand.Text()}
	if mark, err := markProcess(p.name); err == nil {
		p.name, p.listener = placeOf()+p.name, mark
	}
	return p
}

// placeOf returns the PLACE of this process; empty if it is unknown.
func placeOf() string {
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

// markProcess opens the abstract socket that marks this process as running.
func markProcess(name string) (*net.UnixListener, error) {
	if placeOf() == "" { // on other operating systems, ListenUnix would create a file
		return nil, os.ErrNotExist
	}
	return net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@module-controller" + name})
}

// hasEnded reports whether the process with this name is known to have ended. It returns false for a process with
// another PLACE, because such a process cannot be checked.
func hasEnded(name string) bool {
	place, random, _ := strings.Cut(name, "/")
	if place == "" || place != placeOf() {
		return false
	}
	mark, err := markProcess("/" + random)
	return err == nil && mark.Close() == nil
}
