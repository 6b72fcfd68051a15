package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

const (
	// first and last of the ports to choose from. They lie below those that Linux (from 32768) and macOS
	// (from 49152) give to connections that leave the machine, and to listeners that take any port, and
	// below Kubernetes' NodePorts (from 30000). So nobody gets by chance what a component that is down
	// will open again.
	first, last = 20000, 29999
	// tries bounds how many are looked at before any port will do.
	tries = 100
)

// Listen listens on a TCP address, host:port. Port 0 is a free one, chosen by chance from those that
// the system gives to nobody; its owner may close it and open it again. The error is that of
// net.Listen.
func Listen(addr string) (net.Listener, error) {
	host, wanted, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("reading the address to listen on: %w", err)
	}
	if wanted == "0" {
		for range tries {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+rand.IntN(last-first+1))))
			if !errors.Is(err, syscall.EADDRINUSE) {
				return l, err
			}
		}
	}
	return net.Listen("tcp", addr)
}
