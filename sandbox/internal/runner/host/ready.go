package host

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// probeTimeout is the timeout of one readiness check. It is needed because a paused process does not respond.
const probeTimeout = time.Second

// httpReady returns a readiness check that succeeds if a GET request to url returns status 200.
func httpReady(url string) func(context.Context) error {
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }() // only the body matters
		body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s returned %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// freePorts returns count addresses on host with different free ports. It keeps all listeners open until it has
// chosen all ports, so that it does not choose a port twice.
func freePorts(host string, count int) ([]string, error) {
	var addrs []string
	for range count {
		l, err := supervise.Listen(net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // no data was sent
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
