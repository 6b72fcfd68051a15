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
	// firstPort and lastPort are the ports to choose from. They are below the ephemeral ports of Linux (from 32768) and
	// macOS (from 49152), and below the NodePorts of Kubernetes (from 30000), so that no other process gets the port of a
	// component that is down.
	firstPort, lastPort = 20000, 29999
	// portTries is the number of attempts before any port is accepted.
	portTries = 100
)

// Listen listens on a TCP address, host:port. Port 0 is a random free port that the owner can open again after it has
// closed it.
func Listen(addr string) (net.Listener, error) {
	host, wanted, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("reading the address to listen on: %w", err)
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
