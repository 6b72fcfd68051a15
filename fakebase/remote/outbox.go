package remote

import (
	"errors"
	"sync"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// maxQueued is how much a base may have to tell that nobody reads: some minutes of
// the busiest one.
const maxQueued = 1 << 16

var errOverflow = errors.New("too much has happened that nobody has read")

// message is one thing that a base tells, as JSON in the stream.
type message struct {
	// Seq counts the messages from 1.
	Seq uint64 `json:"seq"`
	// Event, with the Status after it, or Trace.
	Event  *fakebase.Event  `json:"event,omitempty"`
	Status *fakebase.Status `json:"status,omitempty"`
	Trace  *fakebase.Trace  `json:"trace,omitempty"`
	// Faults that are there, with the Trace of one.
	Faults *[]fault.Status `json:"faults,omitempty"`
}

// outbox holds what has not been told yet. put may be called while the base is
// locked: it never blocks.
type outbox struct {
	wake chan struct{} // has a token when there is something to take

	mu    sync.Mutex
	last  uint64
	queue []message
	ended bool
	lost  bool
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) put(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	m.Seq = o.last
	if len(o.queue) == maxQueued {
		o.lost = true
	}
	if !o.lost {
		o.queue = append(o.queue, m)
	}
	o.wakeUp()
}

// end says that nothing comes after what has been put.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wakeUp()
}

func (o *outbox) wakeUp() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns what has been put since it was called last, and whether that was
// all. The error is that of messages that were lost.
func (o *outbox) take() (messages []message, all bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost {
		return nil, true, errOverflow
	}
	messages, o.queue = o.queue, nil
	return messages, o.ended, nil
}

// seq is the number of the last message.
func (o *outbox) seq() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}
