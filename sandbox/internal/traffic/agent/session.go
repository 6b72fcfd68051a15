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

// Process is the process of an agent. It is implemented by *stdio.Process with a binary that calls Serve.
type Process interface {
	http.RoundTripper
	// Done returns a channel that is closed when the agent has ended.
	Done() <-chan struct{}
	// Err returns the reason why the agent has ended.
	Err() error
	// Close stops the agent and blocks until the agent has ended.
	Close() error
}

var (
	errUnreachable = errors.New("the traffic agent is unreachable")
	// errEnded is the reason for the end of an agent if no other reason is known.
	errEnded = errors.New("its connection was closed")
)

// session is an agent from its start on. The agent is running or has ended.
type session struct {
	process   Process
	client    rpc.Client
	ahead     time.Duration   // how far the agent's clock is ahead of the local clock; see rpc.Client.Ahead
	delivered rpc.ReadCounter // number of lost requests that were reported
	done      chan struct{}   // closed when the agent has ended
	err       error           // read only after done is closed
}

func newSession(p Process) *session {
	return &session{process: p, client: rpc.Client{Transport: p, Unreachable: errUnreachable},
		done: make(chan struct{})}
}

// run reports lost requests until the agent ends. It returns the reason why the agent has ended.
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

// endErr returns the reason why the agent has ended, or nil if run has not returned yet.
func (s *session) endErr() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// ask calls a method of the agent. It returns an error if the agent has ended.
func ask[In, Out any](ctx context.Context, s *session, m rpc.Unary[In, Out], in In) (out Out, err error) {
	err = s.endErr()
	if err == nil {
		out, err = m.Call(ctx, &s.client, in)
	}
	return out, err
}
