package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Process is an agent that runs: a *stdio.Process whose program calls Serve.
type Process interface {
	http.RoundTripper
	// Done is closed when it has ended.
	Done() <-chan struct{}
	// Err says why it has ended.
	Err() error
	// Close ends it, and blocks until it has ended.
	Close() error
}

// errEnded is the reason when there is no other.
var errEnded = errors.New("its connection ended")

// session is one agent that runs, or has run.
type session struct {
	process Process

	mu     sync.Mutex
	seen   int           // lost requests that have been told
	change chan struct{} // closed when one more is
	done   chan struct{} // closed when it has ended
	err    error         // read after done
}

func newSession(p Process) *session {
	return &session{process: p, change: make(chan struct{}), done: make(chan struct{})}
}

// run tells of lost requests until the agent ends, and returns why it has ended.
func (s *session) run(ctx context.Context, lost func(traffic.LostRequest)) error {
	err := lines(ctx, s, "/lost", func(l traffic.LostRequest) {
		lost(l)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen++
		close(s.change)
		s.change = make(chan struct{})
	})
	closeErr := s.process.Close()
	s.err = fmt.Errorf("the traffic agent has ended: %w", cmp.Or(s.process.Err(), err, closeErr, errEnded))
	close(s.done)
	return s.err
}

// runs tells whether it can still be asked.
func (s *session) runs() bool {
	select {
	case <-s.process.Done():
		return false
	default:
		return true
	}
}

// ended tells whether it has ended, and why.
func (s *session) ended() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// settle waits until all lost requests are told that the agent knew of when it gave
// an answer.
func (s *session) settle(ctx context.Context, h http.Header) error {
	want, err := strconv.Atoi(h.Get(toldHeader))
	if err != nil {
		return fmt.Errorf("the traffic agent does not say what it has lost: %w", err)
	}
	for {
		s.mu.Lock()
		seen, change := s.seen, s.change
		s.mu.Unlock()
		if seen >= want {
			return nil
		}
		select {
		case <-change:
		case <-s.done:
			return s.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// call asks the agent for something; into may be nil.
func (s *session) call(ctx context.Context, method, path string, body, into any) (http.Header, error) {
	response, err := s.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	if into != nil {
		err = json.NewDecoder(response.Body).Decode(into)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the traffic agent answers: %w", err)
	}
	return response.Header, nil
}

// lines calls each for the lines of an answer, until there are no more.
func lines[T any](ctx context.Context, s *session, path string, each func(T)) error {
	response, err := s.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // only read
	for d := json.NewDecoder(response.Body); ; {
		var line T
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading what the traffic agent tells: %w", err)
		}
		each(line)
	}
}

func (s *session) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, fmt.Errorf("asking the traffic agent: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, &content)
	if err != nil {
		return nil, fmt.Errorf("asking the traffic agent: %w", err)
	}
	response, err := s.process.RoundTrip(request)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("the traffic agent does not answer: %w", err)
	case response.StatusCode == http.StatusOK:
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // only read
	var f failure
	if err := json.NewDecoder(response.Body).Decode(&f); err != nil || f.Message == "" {
		f.Message = "the traffic agent answered " + response.Status
	}
	return nil, errors.New(f.Message)
}

func streamsPath(group string) string { return "/streams/" + url.PathEscape(group) }

func streamPath(group, name string) string { return streamsPath(group) + "/" + url.PathEscape(name) }
