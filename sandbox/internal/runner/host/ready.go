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

// probeTimeout bounds one question: a paused process never answers.
const probeTimeout = time.Second

// httpReady asks a URL, and says what it answers when that is not 200.
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
		defer func() { _ = response.Body.Close() }() // what counts has been read
		body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// freePorts picks free loopback addresses; the listeners stay open until all are
// picked, so that no two are the same.
func freePorts(host string, count int) ([]string, error) {
	var addrs []string
	for range count {
		l, err := supervise.Listen(net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // nothing was sent
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
