package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Process is the process of an agent. A *stdio.Process whose binary calls Serve implements it.
type Process interface {
	http.RoundTripper
	// Done returns a channel that is closed when the process has exited.
	Done() <-chan struct{}
	// Err returns the reason why the process has exited. Call it after the channel of Done is closed.
	Err() error
	// Close stops the process and blocks until it has exited.
	Close() error
}

var (
	errUnreachable = errors.New("the traffic agent is unreachable")
	// errEnded is the reason for the exit of an agent if no other reason is known.
	errEnded = errors.New("its connection was closed")
)

// session is an agent that was started. The agent is running or has exited.
type session struct {
	process   Process
	client    rpc.Client
	ahead     time.Duration   // how far the agent's clock is ahead of the local clock
	delivered rpc.ReadCounter // number of lost requests that were reported
	done      chan struct{}   // closed when the agent has exited
	err       error           // error with which the agent ended; valid after done is closed
}

func newSession(p Process) *session {
	return &session{process: p, client: rpc.Client{Transport: p, Unreachable: errUnreachable},
		done: make(chan struct{})}
}

// run reports lost requests. It blocks until the agent exits or ctx ends, stops the agent, and returns the reason for
// the exit.
func (s *session) run(ctx context.Context, onLost func(traffic.LostRequest)) error {
	err := lost.Call(ctx, &s.client, rpc.Empty{}, func(l traffic.LostRequest) {
		l.Record = s.record(l.Record)
		onLost(l)
		s.delivered.Add()
	})
	closeErr := s.process.Close()
	s.err = fmt.Errorf("the traffic agent has ended: %w", cmp.Or(s.process.Err(), err, closeErr, errEnded))
	s.delivered.End(s.err)
	close(s.done)
	return s.err
}

// running reports whether the process of the agent is running.
func (s *session) running() bool {
	select {
	case <-s.process.Done():
		return false
	default:
		return true
	}
}

// endErr returns the reason why the agent has exited, or nil if run has not returned yet.
func (s *session) endErr() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// ask calls a method of the agent. It returns an error if the agent has exited.
func ask[In, Out any](ctx context.Context, s *session, m rpc.Unary[In, Out], in In) (out Out, err error) {
	err = s.endErr()
	if err == nil {
		out, err = m.Call(ctx, &s.client, in)
	}
	return out, err
}
