package traffic

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Target is a base that a request goes to.
type Target struct {
	// IP is the address of the base in Kubernetes.
	IP string
	// Pod behind the endpoint that was picked; empty when no Pod was asked.
	Pod string
	// Base is its name in reports, such as base-1.
	Base string
	// Host is the host name that it answers with; empty = any will do.
	Host string
	// Web and Arklet are host:port of its listeners on this machine, for modules and
	// for commands; empty = it has none.
	Web    string
	Arklet string
	// ArkletPort is the port at IP on which the base takes commands.
	ArkletPort string
	// Port is the port at IP on which the base serves modules. Default: every port.
	Port string
	// Closed is the port that a request asked for, if the base does not listen there; Web is empty then.
	Closed string
}

// On returns the target for a connection to a port at its IP: Web is the listener of that port. An empty port means
// the module port.
func (t Target) On(port string) Target {
	if port == "" || port == t.Port {
		return t
	}
	if port == t.ArkletPort {
		t.Web = t.Arklet
	} else if t.Port != "" {
		t.Web, t.Closed = "", port
	}
	return t
}

// refusal returns the error of a connection to a target without a listener.
func (t Target) refusal() error {
	if t.Closed == "" {
		return errNoBase
	}
	return fmt.Errorf("the base serves modules on port %s and does not listen on port %s: %w", t.Port, t.Closed,
		syscall.ECONNREFUSED)
}

// Targets knows the bases. Its methods may be called concurrently and are called
// for each request: they must be quick.
type Targets interface {
	// ByIP returns the base with an address.
	ByIP(ip string) (Target, bool)
	// Group returns the bases of a run, the oldest first, those that are down too.
	// Nobody changes the list afterwards.
	Group(group string) []Target
}

// DialError says that no connection came about. It wraps the reason.
type DialError struct {
	// Target that was picked.
	Target Target
	Err    error
}

func (e *DialError) Error() string {
	if e.Target.Base == "" {
		return fmt.Sprintf("connecting to %s: %v", e.Target.IP, e.Err)
	}
	return fmt.Sprintf("connecting to %s (base %s): %v", e.Target.IP, e.Target.Base, e.Err)
}

// Unwrap returns the reason.
func (e *DialError) Unwrap() error { return e.Err }

// errNoBase is what an address gives behind which nothing runs: as if nobody
// listened there.
var errNoBase = fmt.Errorf("no base has this address: %w", syscall.ECONNREFUSED)

// conn is a connection that knows where it leads.
type conn struct {
	net.Conn
	target Target
}

// dialer has no keep-alive probes: each would cost a system call, and no
// connection here is idle for that long.
var dialer = net.Dialer{KeepAlive: -1}

// dialReal connects to a listener on this machine. Close resets the connection: with 2,000 connections a second,
// TIME_WAIT would use up the ports.
func dialReal(ctx context.Context, addr string) (net.Conn, error) {
	return dialWith(ctx, &dialer, addr)
}

func dialWith(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a connection that is gone already
	}
	return c, nil
}

// matches reports whether a base is meant: by its name, by the name of its set, or by *.
// No names mean all.
func matches(names []string, base string) bool {
	for _, name := range names {
		if name == "*" || name == base {
			return true
		}
		if number, ok := strings.CutPrefix(base, name+"-"); ok {
			if _, err := strconv.Atoi(number); err == nil {
				return true
			}
		}
	}
	return len(names) == 0
}
