package httptunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

const (
	// defaultPort is the first port on which a real arklet tries to listen (protocol 2).
	defaultPort = 1238
	dialTimeout = 5 * time.Second
	// queryTimeout is the maximum duration of a health or queryAllBiz request.
	queryTimeout = 10 * time.Second
	// maxOperations is the maximum number of concurrent operations on one base.
	maxOperations = 64
	// maxAnswerHeader is the maximum size of the header of a response, in bytes.
	maxAnswerHeader = 16 << 10
	// allAnswers is the maximum total size of all responses that are being read, in bytes.
	allAnswers = 64 << 20
)

// query identifies a query to a base. Identical queries are not sent concurrently, because a base can mix up the
// answers to concurrent health checks.
type query struct {
	base    string
	command arklet.Command
}

type call struct {
	to      tunnel.Address
	request arklet.Request
}

func newTransport(opts Options) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := opts.Dial(ctx, network, addr)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
		DisableKeepAlives:      true, // arklet closes after each answer (protocol 4.2)
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}

// dialError is an error that occurred before any data was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Send sends a command and returns immediately. The answer is passed to the Handler. If there is no answer,
// Handler.Unanswered is called. If a query is requested while an identical query is in flight, it is sent after that
// query. Several such requests result in one query. Requests end at their timeouts or when Start returns.
func (t *Tunnel) Send(_ context.Context, to tunnel.Address, r arklet.Request) error {
	if net.ParseIP(to.IP) == nil {
		return fmt.Errorf("the base address %q is not an IP address", to.IP)
	}
	c := &call{to: to, request: r}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return ErrStopped
	}
	switch r.Command {
	case arklet.CommandHealth, arklet.CommandQueryAllBiz:
		q := query{to.Identity, r.Command}
		if _, busy := t.queries[q]; busy {
			t.queries[q] = c // the newest call has the newest address
			return nil
		}
		t.queries[q] = nil
		t.calls.Go(func() { t.runQuery(q, c) }) //nolint:contextcheck // The call outlives Send.
		return nil
	case arklet.CommandInstallBiz, arklet.CommandUninstallBiz, arklet.CommandSwitchBiz:
		if t.running[to.Identity] >= maxOperations {
			return fmt.Errorf("%d operations are in progress on this base, which is the maximum", maxOperations)
		}
		t.running[to.Identity]++
		t.calls.Go(func() { t.operate(c) }) //nolint:contextcheck // The call outlives Send.
		return nil
	default:
		return fmt.Errorf("%s: %w", r.Command, tunnel.ErrNotSupported)
	}
}

// runQuery sends a query. It sends the query again if the query was requested in the meantime.
func (t *Tunnel) runQuery(q query, c *call) {
	for c != nil {
		t.exchange(c, t.opts.TimeScale.Of(queryTimeout))
		t.mu.Lock()
		c = t.queries[q]
		if c == nil || t.ctx.Err() != nil {
			c = nil
			delete(t.queries, q)
		} else {
			t.queries[q] = nil
		}
		t.mu.Unlock()
	}
}

// operate sends an operation to a base.
func (t *Tunnel) operate(c *call) {
	t.exchange(c, t.opts.OperationTimeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[c.to.Identity]--
	if t.running[c.to.Identity] == 0 {
		delete(t.running, c.to.Identity)
	}
}

// exchange sends a request and passes the answer or the error to the handler.
func (t *Tunnel) exchange(c *call, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	asked := time.Now()
	body, err := t.post(ctx, c)
	if err != nil {
		err = &sanitizedError{explain(ctx, err, timeout)}
	}
	t.deliver(c, asked, body, err)
}

// post sends a request and returns the body of the response. The body ends when the base closes the connection
// (protocol 4.2).
func (t *Tunnel) post(ctx context.Context, c *call) ([]byte, error) {
	body, err := c.request.Body()
	if err != nil {
		return nil, err
	}
	port := c.to.Port
	if port == 0 {
		port = defaultPort
	}
	url := "http://" + net.JoinHostPort(c.to.IP, strconv.Itoa(port)) + "/" + string(c.request.Command)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("creating a request to %s: %w", url, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.transport.RoundTrip(req) // RoundTrip does not follow redirects, which arklet does not send
	if err != nil {
		return nil, fmt.Errorf("posting to %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answered with status %d", tunnel.ErrRefused, url, resp.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, arklet.MaxPayload+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response from %s: %w", url, errors.Join(errCutShort, err))
	case len(answer) > arklet.MaxPayload:
		return nil, fmt.Errorf("reading the response from %s: %w", url, arklet.ErrTooLarge)
	}
	return answer, nil
}
