package traffic

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Target describes the base to which a request is sent.
type Target struct {
	// IP is the address of the base in the cluster.
	IP string
	// Pod is the Pod behind the selected endpoint; empty if the request does not use a Service.
	Pod string
	// Base is the name of the base for use in reports, such as base-1.
	Base string
	// Host is the host name that responses of the base must contain. If it is empty, any host name is accepted.
	Host string
	// Web and Arklet are the local addresses (host:port) at which the base listens: Web for requests to modules,
	// Arklet for commands. They are empty if the base does not listen.
	Web    string
	Arklet string
	// ArkletPort is the command port of the base at the address IP.
	ArkletPort string
	// Port is the module port of the base at the address IP. Default: every port is the module port.
	Port string
	// Closed is the requested port if the base does not listen on this port. Web is then empty.
	Closed string
}

// WithPort returns t for connections to a port at the address t.IP. Web of the returned target is the listener for this
// port. An empty port means the module port.
func (t Target) WithPort(port string) Target {
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

// Targets finds bases. Its methods are called for each request and must return quickly. They may be called
// concurrently.
type Targets interface {
	// ByIP returns the base with the given IP address.
	ByIP(ip string) (Target, bool)
	// Group returns the bases of a group, oldest first, including bases that are down. The caller must not modify the
	// list.
	Group(group string) []Target
}

// DialError is the error for a connection that could not be established. It wraps the cause.
type DialError struct {
	// Target is the target to which the connection failed.
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

// errNoBase is the error for an address that belongs to no base. It wraps ECONNREFUSED, like the error for a base
// that does not listen.
var errNoBase = fmt.Errorf("no base has this address: %w", syscall.ECONNREFUSED)

// conn is a network connection to a Target.
type conn struct {
	net.Conn
	target Target
}

// dialer sends no keepalive probes: enabling them requires a system call for each connection, and no connection is
// idle long enough to need them.
var dialer = net.Dialer{KeepAlive: -1}

// dialReal connects to a listener on this machine. Closing the connection resets it: with 2,000 connections per
// second, connections in TIME_WAIT would exhaust the local ports.
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

// matches reports whether names selects a base. An element selects the base by its name or by the name of its set; *
// selects every base. An empty list also selects every base.
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
