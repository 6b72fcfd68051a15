package apifault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

const (
	// mostWaiting is how many bytes of a watch that is held may wait. Beyond it the watch is cut, as
	// the API server cuts one whose reader is too slow.
	mostWaiting = 64 << 20
	// mostFrame is the largest event that is believed; etcd's largest object has 1.5 MB.
	mostFrame = 32 << 20
)

// stream is a watch on its way to the controller, as the body of a response. What the API server
// sends is read at once, event by event; whole events are passed on.
type stream struct {
	request
	replica int
	body    io.ReadCloser // from the API server
	next    func() ([]byte, error)
	// kept is told of each event that is held.
	kept func(s *stream, by []*fault.Active)
	done func() // when nobody reads it any more
	// forget has the end of the request be of no matter any more.
	forget func() bool

	following sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	current []byte                 // the event that is being read
	queue   [][]byte               // those that follow
	size    int                    // of the queue
	held    map[*fault.Active]bool // by what holds it, or does something to its events
	aside   []byte                 // the event that the next one is to overtake
	err     error                  // that follows the queue
	closed  bool
}

// newStream returns a watch that nobody follows yet. When ctx ends nobody waits for it any more.
func newStream(ctx context.Context, response *http.Response, q *request, replica int) *stream {
	s := &stream{request: *q, replica: replica, body: response.Body, held: map[*fault.Active]bool{}, done: func() {},
		kept: func(*stream, []*fault.Active) {}}
	s.changed.L = &s.mu
	s.forget = context.AfterFunc(ctx, s.abandon)
	s.next = frames(response.Header.Get("Content-Type"), response.Body)
	return s
}

// frames reads event by event what has a content type.
func frames(contentType string, from io.Reader) func() ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(contentType) // another one is read as it comes
	r := bufio.NewReaderSize(from, 16<<10)
	switch kind {
	case "application/json": // a line for each
		return func() ([]byte, error) { return r.ReadBytes('\n') }
	case "application/vnd.kubernetes.protobuf": // the length in four bytes, then the event
		return func() ([]byte, error) {
			head, err := r.Peek(4)
			if err != nil {
				return nil, err
			}
			length := binary.BigEndian.Uint32(head)
			if length > mostFrame {
				return nil, io.ErrUnexpectedEOF
			}
			frame := make([]byte, 4+length)
			_, err = io.ReadFull(r, frame)
			return frame, err
		}
	default:
		return func() ([]byte, error) {
			if _, err := r.Peek(1); err != nil {
				return nil, err
			}
			chunk := make([]byte, r.Buffered())
			n, err := r.Read(chunk)
			return chunk[:n], err
		}
	}
}

// bookmark reports whether an event says nothing of any object. Its type is at its beginning.
func bookmark(frame []byte) bool {
	return bytes.Contains(frame[:min(len(frame), 32)], []byte("BOOKMARK"))
}

func (s *stream) start() { s.following.Go(s.follow) }

// follow reads what the API server sends until that ends, or the stream is closed or cut.
func (s *stream) follow() {
	for {
		frame, err := s.next()
		over, by := s.take(frame, err)
		if len(by) > 0 && !bookmark(frame) {
			s.kept(s, by)
		}
		if over {
			return
		}
	}
}

// take queues an event, or the end. It reports whether the stream is over, and what holds the event.
func (s *stream) take(frame []byte, err error) (over bool, by []*fault.Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	if s.closed || s.err != nil { // what comes after a cut, the next watch brings
		return true, nil
	}
	if len(frame) > 0 && (err == nil || errors.Is(err, io.EOF)) {
		s.add(s.spoil(frame)...)
		by = slices.Collect(maps.Keys(s.held))
	}
	s.err = err
	switch {
	case err != nil && !errors.Is(err, io.EOF): // it broke: nothing comes any more
		s.queue, s.size = nil, 0
	case s.size > mostWaiting:
		s.queue, s.size, s.err = nil, 0, io.EOF
	}
	return s.err != nil, by
}

func (s *stream) add(frames ...[]byte) {
	for _, f := range frames {
		s.queue, s.size = append(s.queue, f), s.size+len(f)
	}
}

// spoil returns what comes of an event by the rules that go beyond the API's contract.
func (s *stream) spoil(frame []byte) [][]byte {
	if bookmark(frame) {
		return [][]byte{frame}
	}
	out := [][]byte{frame}
	for x := range s.held {
		switch x.Fault.Kind {
		case v1alpha1.APILoseEvents:
			out = nil
		case v1alpha1.APIDoubleEvents:
			out = append(out, out...)
		case v1alpha1.APIReorderEvents:
			if s.aside == nil && len(out) > 0 {
				s.aside, out = frame, nil
			} else if s.aside != nil {
				out, s.aside = append(out, s.aside), nil
			}
		}
	}
	return out
}

// stopped reports whether something holds the watch.
func (s *stream) stopped() bool {
	for x := range s.held {
		if x.Fault.Kind == v1alpha1.APIHoldWatch {
			return true
		}
	}
	return false
}

// Read gives what may be seen. It blocks while there is nothing, or the watch is held.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.current) == 0 {
		switch {
		case s.closed:
			return 0, http.ErrBodyReadAfterClose
		case !s.stopped() && len(s.queue) > 0:
			s.current, s.queue = s.queue[0], s.queue[1:]
			s.size -= len(s.current)
			continue
		case len(s.queue) == 0 && s.err != nil:
			return 0, s.err
		}
		s.changed.Wait()
	}
	n := copy(p, s.current)
	s.current = s.current[n:]
	return n, nil
}

// abandon ends the stream when nobody waits for it any more, held or not.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.queue, s.size, s.err = nil, nil, 0, context.Canceled
	s.changed.Broadcast()
}

// Close ends the stream, and blocks until nobody follows it any more.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.forget()
	s.done()
	err := s.body.Close()
	s.following.Wait()
	return err
}

// hold has a fault keep back what comes from now on, or do what else it does, until it is released.
func (s *stream) hold(by *fault.Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[by] = true
}

func (s *stream) release(by *fault.Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, by)
	if by.Fault.Kind == v1alpha1.APIReorderEvents && s.aside != nil {
		s.add(s.aside) // nothing is to overtake it any more
		s.aside = nil
	}
	s.changed.Broadcast()
}

// cut ends the watch for the controller after the event that it is reading. Those that wait are
// dropped: the next watch begins after the last one that was seen.
func (s *stream) cut() {
	s.mu.Lock()
	s.queue, s.size, s.err = nil, 0, io.EOF
	s.changed.Broadcast()
	s.mu.Unlock()
	_ = s.body.Close() // it is given up
}
