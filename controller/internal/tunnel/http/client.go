package httptunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

const (
	// defaultPort is where a real arklet looks for a free port first (protocol 2.2).
	defaultPort = 1238
	dialTimeout = 5 * time.Second
	// queryTimeout is how long health and queryAllBiz may take in all.
	queryTimeout = 10 * time.Second
	// maxOperations bounds the operations of one base. A base's workers are configured to a few;
	// beyond this something is wrong.
	maxOperations = 64
	// maxAnswerHeader is the maximum size of the header of an answer, in bytes.
	maxAnswerHeader = 16 << 10
	// allAnswers is the maximum size of all answers that are being read, in bytes.
	allAnswers = 64 << 20
)

// query is a question that a base is asked once at a time: concurrent health calls can mix their
// answers up (protocol 7).
type query struct {
	base    string
	command arklet.Command
}

// evictedAnswer logs that a connection was closed because all answers together exceeded allAnswers.
func (t *Tunnel) evictedAnswer(address netip.Prefix, connections, bytes int) {
	from := tunnel.Origin{Tunnel: tunnel.HTTP, IP: address.Addr().String(), At: time.Now()}
	t.handler.Rejected(from, kindConnection, tunnel.TooMany, fmt.Errorf(
		"limit of answers exceeded: closed a connection to %s, which had %d connections with %d bytes, the most of all addresses", address, connections, bytes))
}

// call is one request to one base.
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

// dialError is an error from before anything was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Send has a command sent to a base and returns at once; the answer comes through the Handler, or
// Unanswered does. A question that waits while the same one is under way at that base is asked
// once, however often it is sent. ctx bounds nothing: what was begun ends by the timeouts of
// Options, or with Start.
func (t *Tunnel) Send(ctx context.Context, to tunnel.Address, r arklet.Request) error {
	if net.ParseIP(to.IP) == nil {
		return fmt.Errorf("its address %q is no IP address", to.IP)
	}
	ctx = context.WithoutCancel(ctx)
	c := &call{to: to, request: r}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return ErrStopped
	}
	switch r.Command {
	case arklet.CommandHealth, arklet.CommandQueryAllBiz:
		q := query{to.Identity, r.Command}
		if _, busy := t.queries[q]; busy {
			t.queries[q] = c // the newest knows the address best
			return nil
		}
		t.queries[q] = nil
		t.calls.Go(func() { t.ask(ctx, q, c) })
		return nil
	case arklet.CommandInstallBiz, arklet.CommandUninstallBiz, arklet.CommandSwitchBiz:
		if t.running[to.Identity] >= maxOperations {
			return fmt.Errorf("%d operations are under way there", maxOperations)
		}
		t.running[to.Identity]++
		t.calls.Go(func() { t.operate(ctx, c) })
		return nil
	default:
		return fmt.Errorf("%s: %w", r.Command, tunnel.ErrNotSupported)
	}
}

// ask works on a base's question until nobody waits for another turn.
func (t *Tunnel) ask(ctx context.Context, q query, c *call) {
	for c != nil {
		t.exchange(ctx, c, t.opts.Speed.Of(queryTimeout))
		t.mu.Lock()
		if c = t.queries[q]; c == nil || t.stopped {
			c = nil
			delete(t.queries, q)
		} else {
			t.queries[q] = nil
		}
		t.mu.Unlock()
	}
}

func (t *Tunnel) operate(ctx context.Context, c *call) {
	t.exchange(ctx, c, t.opts.OperationTimeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[c.to.Identity]--; t.running[c.to.Identity] == 0 {
		delete(t.running, c.to.Identity)
	}
}

// exchange sends one request and tells the handler what came of it.
func (t *Tunnel) exchange(ctx context.Context, c *call, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t.mu.Lock()
	if t.stopped {
		cancel()
	}
	t.cancels[c] = cancel
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.cancels, c)
		t.mu.Unlock()
	}()
	asked := time.Now()
	body, err := t.post(ctx, c)
	if err != nil {
		err = &shownError{explain(ctx, err, timeout)}
	}
	t.deliver(c, asked, body, err)
}

// post returns the body of the answer, which has no length and ends with the connection (protocol
// 4.2).
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
		return nil, fmt.Errorf("preparing a request to %s: %w", url, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.transport.RoundTrip(req) // a redirect is not arklet's, so nothing follows it
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
		return nil, fmt.Errorf("reading the answer of %s: %w", url, errors.Join(errCutShort, err))
	case len(answer) > arklet.MaxPayload:
		return nil, fmt.Errorf("reading the answer of %s: %w", url, arklet.ErrTooLarge)
	}
	return answer, nil
}
