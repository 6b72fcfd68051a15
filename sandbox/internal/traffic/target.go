package traffic

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Target is the base to which a request is sent.
type Target struct {
	// IP is the address of the base in Kubernetes.
	IP string
	// Pod is the Pod behind the endpoint that was picked; empty if the request does not use a Service.
	Pod string
	// Base is the name of the base as shown in reports, such as base-1.
	Base string
	// Host is the expected host name in responses of the base; empty = any host name.
	Host string
	// Web and Arklet are the host:port of the local listeners of the base: Web for modules, Arklet for commands;
	// empty = no listener.
	Web    string
	Arklet string
	// ArkletPort is the command port at IP.
	ArkletPort string
	// Port is the module port at IP. Default: every port.
	Port string
	// Closed is the requested port if the base does not listen on it. Web is empty in this case.
	Closed string
}

// On returns the target for a connection to a port at the IP of t: Web of this target is the listener of that port.
// An empty port means the module port.
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

// refusal returns the error for a connection to a target without a listener.
func (t Target) refusal() error {
	if t.Closed == "" {
		return errNoBase
	}
	return fmt.Errorf("the base serves modules on port %s and does not listen on port %s: %w", t.Port, t.Closed,
		syscall.ECONNREFUSED)
}

// Targets finds bases. Its methods may be called concurrently. They are called for each request and must return
// quickly.
type Targets interface {
	// ByIP returns the base with an IP address.
	ByIP(ip string) (Target, bool)
	// Group returns the bases of a group, oldest first, including bases that are down. The caller must not modify the
	// list.
	Group(group string) []Target
}

// DialError is the error for a connection that could not be established. It wraps the cause.
type DialError struct {
	// Target is the target that was picked.
	Target Target
	Err    error
}

func (e *DialError) Error() string {
	if e.Target.Base == "" {
		return fmt.Sprintf("connecting to %s: %v", e.Target.IP, e.Err)
	}
	return fmt.Sprintf("connecting to %s (base %s): %v", e.Target.IP, e.Target.Base, e.Err)
}

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// errNoBase is the error for an address without a base. Like the error for an address without a listener, it wraps
// ECONNREFUSED.
var errNoBase = fmt.Errorf("no base has this address: %w", syscall.ECONNREFUSED)

// conn is a network connection and its target.
type conn struct {
	net.Conn
	target Target
}

// dialer sends no keepalive probes: enabling them requires a system call for each connection, and no connection is
// idle long enough to need them.
var dialer = net.Dialer{KeepAlive: -1}

// dialReal connects to a listener on this machine. Close resets the connection: with 2,000 connections per second,
// connections in TIME_WAIT would exhaust the local ports.
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

// matches reports whether names selects a base: by its name, by the name of its set, or by *. An empty list selects
// every base.
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
