package traffic

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Target is the base that a request is sent to.
type Target struct {
	// IP is the address of the base in Kubernetes.
	IP string
	// Pod behind the endpoint that was picked; empty if the request does not use a Service.
	Pod string
	// Base is the name of the base in reports, such as base-1.
	Base string
	// Host is the host name in its responses; empty = any.
	Host string
	// Web and Arklet are host:port of its local listeners for modules and for commands; empty = none.
	Web    string
	Arklet string
	// ArkletPort is the port at IP for commands.
	ArkletPort string
	// Port is the port at IP for modules. Default: every port.
	Port string
	// Closed is the requested port, if the base does not listen on it; Web is empty then.
	Closed string
}

// On returns the target of a connection to a port at its IP: Web becomes the listener of that port. An empty
// port means the module port.
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

// Targets finds bases. Its methods may be called concurrently. They are called for each request, so they must
// be fast.
type Targets interface {
	// ByIP returns the base with an address.
	ByIP(ip string) (Target, bool)
	// Group returns the bases of a group, oldest first, including bases that are down. The list is immutable.
	Group(group string) []Target
}

// DialError is the error of a connection that was not established. It wraps the reason.
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

// errNoBase is the error for an address without a base. It wraps ECONNREFUSED, as for an address without a
// listener.
var errNoBase = fmt.Errorf("no base has this address: %w", syscall.ECONNREFUSED)

// conn is a connection with its target.
type conn struct {
	net.Conn
	target Target
}

// dialer sends no keepalive probes: each would need a system call, and no connection here is idle for that
// long.
var dialer = net.Dialer{KeepAlive: -1}

// dialReal connects to a listener on this machine. Close resets the connection: with 2,000 connections per
// second, connections in TIME_WAIT would use up the ports.
func dialReal(ctx context.Context, addr string) (net.Conn, error) {
	return dialWith(ctx, &dialer, addr)
}

func dialWith(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a connection that has already ended
	}
	return c, nil
}

// matches reports whether names contains a base: by its name, by the name of its set, or by *. An empty list
// contains every base.
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
