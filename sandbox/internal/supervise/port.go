package supervise

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

const (
	// firstPort and lastPort bound the random ports of components. The range is below the ephemeral ports of Linux
	// (from 32768) and macOS (from 49152), and below the NodePorts of Kubernetes (from 30000). The port of a
	// component is therefore not assigned to another process while the component is down.
	firstPort, lastPort = 20000, 29999
	// portTries is the number of random ports that Listen tries before it accepts any free port.
	portTries = 100
)

// Listen listens on a TCP address, host:port. For port 0, it chooses a random free port. The caller can close the
// listener and listen on the same port again later.
func Listen(addr string) (net.Listener, error) {
	host, wanted, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("parsing listen address %q: %w", addr, err)
	}
	if wanted == "0" {
		for range portTries {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1))))
			if !errors.Is(err, syscall.EADDRINUSE) {
				return l, err
			}
		}
	}
	return net.Listen("tcp", addr)
}
