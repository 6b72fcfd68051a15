package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// ErrUnreachable is returned, wrapped, when no daemon answers on the socket.
var ErrUnreachable = errors.New("the sandbox's daemon does not answer")

// Client talks to the daemon of one sandbox. Its methods may be called
// concurrently. They return an *Error when the daemon refuses or fails, and
// ErrUnreachable, wrapped, when it is not there.
type Client struct {
	http http.Client
}

// NewClient returns a client for the daemon that listens on the unix socket.
func NewClient(socket string) *Client {
	var d net.Dialer
	return &Client{http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
	}}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks how the sandbox is; with bases, for each base and its Node too.
func (c *Client) Status(ctx context.Context, bases bool) (*Status, error) {
	var s Status
	return &s, c.do(ctx, http.MethodGet, fmt.Sprintf("/v1/status?bases=%t", bases), nil, &s)
}

// Up brings the sandbox up and blocks until it is; sink gets the steps. When ctx
// ends before a first up is done, the daemon takes the sandbox down.
func (c *Client) Up(ctx context.Context, r UpRequest, sink func(progress.Event)) (*UpResult, error) {
	var result *UpResult
	err := c.stream(ctx, http.MethodPost, "/v1/up", r, func(l line) {
		if l.Event != nil {
			sink(*l.Event)
		}
		if l.Result != nil {
			result = l.Result
		}
	})
	if err == nil && result == nil {
		err = fmt.Errorf("it ended before the sandbox was up: %w", ErrUnreachable)
	}
	return result, err
}

// Down stops everything; the daemon ends after its answer.
func (c *Client) Down(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/down", nil, nil)
}

// Events calls sink for every step since the daemon's start, until ctx or the
// daemon ends.
func (c *Client) Events(ctx context.Context, sink func(progress.Event)) error {
	return c.stream(ctx, http.MethodGet, "/v1/events", nil, func(l line) {
		if l.Event != nil {
			sink(*l.Event)
		}
	})
}

// Bases lists the bases with their Nodes: those of a group, or all if it is empty.
func (c *Client) Bases(ctx context.Context, group string) ([]Base, error) {
	path := "/v1/bases"
	if group != "" {
		path += "?" + url.Values{"group": {group}}.Encode()
	}
	var bases []Base
	return bases, c.do(ctx, http.MethodGet, path, nil, &bases)
}

// AddBases adds bases and returns them when they are connected; their Nodes come
// a little later.
func (c *Client) AddBases(ctx context.Context, r AddRequest) ([]Base, error) {
	var bases []Base
	return bases, c.do(ctx, http.MethodPost, "/v1/bases", r, &bases)
}

// RemoveBases ends bases and returns them.
func (c *Client) RemoveBases(ctx context.Context, r RemoveRequest) ([]Base, error) {
	var bases []Base
	return bases, c.do(ctx, http.MethodDelete, "/v1/bases", r, &bases)
}

// RestartBase ends the process of a base, named by identity or host name, and
// returns the base when its new process is connected.
func (c *Client) RestartBase(ctx context.Context, base string, r RestartRequest) (*Base, error) {
	var b Base
	return &b, c.do(ctx, http.MethodPost, "/v1/bases/"+url.PathEscape(base)+"/restart", r, &b)
}

// Act does something to a component.
func (c *Client) Act(ctx context.Context, component string, action Action) error {
	return c.do(ctx, http.MethodPost, "/v1/components/"+url.PathEscape(component)+"/"+string(action), nil, nil)
}

// Inject puts a fault into a base, named by identity or host name.
func (c *Client) Inject(ctx context.Context, base string, fault json.RawMessage) (string, error) {
	var f Fault
	err := c.do(ctx, http.MethodPost, faultsPath(base), fault, &f)
	return f.ID, err
}

// Faults lists the faults of a base.
func (c *Client) Faults(ctx context.Context, base string) ([]Fault, error) {
	var faults []Fault
	return faults, c.do(ctx, http.MethodGet, faultsPath(base), nil, &faults)
}

// ClearFaults ends the faults with the ids, or all when there are none.
func (c *Client) ClearFaults(ctx context.Context, base string, ids ...string) error {
	path := faultsPath(base)
	if len(ids) > 0 {
		path += "?" + url.Values{"id": ids}.Encode()
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil)
}

func faultsPath(base string) string { return "/v1/bases/" + url.PathEscape(base) + "/faults" }

// do sends a request and decodes its answer; into may be nil.
func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // everything has been read
	if into == nil {
		_, err = io.Copy(io.Discard, response.Body)
	} else {
		err = json.NewDecoder(response.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("reading the daemon's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// stream sends a request and calls each for the lines of its answer.
func (c *Client) stream(ctx context.Context, method, path string, body any, each func(line)) error {
	return lines(ctx, c, method, path, body, func(l line) error {
		if l.Error != nil {
			return l.Error
		}
		each(l)
		return nil
	})
}

// lines sends a request and calls each for the lines of its answer, until it
// returns an error.
func lines[T any](ctx context.Context, c *Client, method, path string, body any, each func(T) error) error {
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the end of the stream has told all
	d := json.NewDecoder(response.Body)
	for {
		var l T
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("the connection broke (%w): %w", err, ErrUnreachable)
		}
		if err := each(l); err != nil {
			return err
		}
	}
}

// send returns the response of a request that went well.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, fmt.Errorf("writing the request %s %s: %w", method, path, err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://sandbox"+path, &content)
	if err != nil {
		return nil, fmt.Errorf("making the request %s %s: %w", method, path, err)
	}
	response, err := c.http.Do(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrUnreachable, err)
	case response.StatusCode < 300:
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // the error is what counts
	e := &Error{}
	if err := json.NewDecoder(response.Body).Decode(e); err != nil || e.Message == "" {
		return nil, fmt.Errorf("the daemon answered %s to %s %s", response.Status, method, path)
	}
	return nil, e
}
