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

var (
	errUnreachable = errors.New("the traffic agent does not answer")
	// errEnded is the reason when there is no other.
	errEnded = errors.New("its connection ended")
)

// session is one agent that runs, or has run.
type session struct {
	process Process
	client  rpc.Client
	ahead   time.Duration // of its clock, as rpc.Client.Ahead says
	told    rpc.ReadCounter      // of the lost requests
	done    chan struct{} // closed when it has ended
	err     error         // read after done
}

func newSession(p Process) *session {
	return &session{process: p, client: rpc.Client{Transport: p, Unreachable: errUnreachable},
		done: make(chan struct{})}
}

// run tells of lost requests until the agent ends, and returns why it has ended.
func (s *session) run(ctx context.Context, tell func(traffic.LostRequest)) error {
	err := lost.Call(ctx, &s.client, rpc.Empty{}, func(l traffic.LostRequest) {
		l.Record = s.record(l.Record)
		tell(l)
		s.told.Add()
	})
	closeErr := s.process.Close()
	s.err = fmt.Errorf("the traffic agent has ended: %w", cmp.Or(s.process.Err(), err, closeErr, errEnded))
	s.told.End(s.err)
	close(s.done)
	return s.err
}

// runs reports whether it can still be asked.
func (s *session) runs() bool {
	select {
	case <-s.process.Done():
		return false
	default:
		return true
	}
}

// ended reports whether it has ended, and why.
func (s *session) ended() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// ask calls an agent that has not ended.
func ask[In, Out any](ctx context.Context, s *session, m rpc.Unary[In, Out], in In) (out Out, err error) {
	err = s.ended()
	if err == nil {
		out, err = m.Call(ctx, &s.client, in)
	}
	return out, err
}
