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
	// maxQueued is the maximum size in bytes of the queued events of a held watch. Above this limit, the watch ends,
	// as it does when a client reads too slowly from a real API server.
	maxQueued = 64 << 20
	// maxFrame is the maximum size of a watch event in bytes. The largest object that etcd stores has 1.5 MB.
	maxFrame = 32 << 20
)

// stream is the response body of a watch request. It reads events from the API server as they arrive, and queues them
// until the controller reads them.
type stream struct {
	request
	replica int
	body    io.ReadCloser // response body from the API server
	next    func() ([]byte, error)
	// onHeldEvent is called for each event that a fault affects.
	onHeldEvent func(s *stream, faults []*fault.Active)
	onClose     func()
	// stopAbandon stops abandon from being called when the context of the watch request ends.
	stopAbandon func() bool

	following sync.WaitGroup

	mu        sync.Mutex
	changed   sync.Cond
	current   []byte                 // unread part of the event that the controller is reading
	queue     [][]byte               // events that follow current
	size      int                    // size of the queue in bytes
	faults    map[*fault.Active]bool // faults that hold the watch or change its events
	reordered []byte                 // event that a reorder fault delivers after the next event
	err       error                  // error to return when the queue is empty
	closed    bool
}

// newStream returns a stream for the response to a watch request. The stream reads no events before start is called.
// When ctx ends, the stream is abandoned.
func newStream(ctx context.Context, response *http.Response, q *request, replica int) *stream {
	s := &stream{request: *q, replica: replica, body: response.Body, faults: map[*fault.Active]bool{},
		onClose:     func() {},
		onHeldEvent: func(*stream, []*fault.Active) {}}
	s.changed.L = &s.mu
	s.stopAbandon = context.AfterFunc(ctx, s.abandon)
	s.next = frameReader(response.Header.Get("Content-Type"), response.Body)
	return s
}

// frameReader returns a function that reads the next watch event from a response with the given content type. If the
// content type is unknown, the function returns chunks of data.
func frameReader(contentType string, from io.Reader) func() ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(contentType) // an unknown type is read in chunks
	r := bufio.NewReaderSize(from, 16<<10)
	switch kind {
	case "application/json": // one line per event
		return func() ([]byte, error) { return r.ReadBytes('\n') }
	case "application/vnd.kubernetes.protobuf": // four bytes with the length, then the event
		return func() ([]byte, error) {
			head, err := r.Peek(4)
			if err != nil {
				return nil, err
			}
			length := binary.BigEndian.Uint32(head)
			if length > maxFrame {
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

// isBookmark reports whether a watch event is a bookmark. It reads the event type at the beginning of the event.
func isBookmark(frame []byte) bool {
	return bytes.Contains(frame[:min(len(frame), 32)], []byte("BOOKMARK"))
}

func (s *stream) start() { s.following.Go(s.follow) }

// follow reads and queues events. It blocks until the response of the API server ends, or the stream is closed or
// cut.
func (s *stream) follow() {
	for {
		frame, err := s.next()
		ended, faults := s.enqueue(frame, err)
		if len(faults) > 0 && !isBookmark(frame) {
			s.onHeldEvent(s, faults)
		}
		if ended {
			return
		}
	}
}

// enqueue queues a watch event, or the error that ended the response. It reports whether the stream has ended, and
// returns the faults that affect the event.
func (s *stream) enqueue(frame []byte, err error) (ended bool, faults []*fault.Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	if s.closed || s.err != nil { // the next watch delivers events after a cut
		return true, nil
	}
	if len(frame) > 0 && (err == nil || errors.Is(err, io.EOF)) {
		s.add(s.applyFaults(frame)...)
		faults = slices.Collect(maps.Keys(s.faults))
	}
	s.err = err
	switch {
	case err != nil && !errors.Is(err, io.EOF): // the connection failed: queued events are lost
		s.queue, s.size = nil, 0
	case s.size > maxQueued:
		s.queue, s.size, s.err = nil, 0, io.EOF
	}
	return s.err != nil, faults
}

func (s *stream) add(frames ...[]byte) {
	for _, f := range frames {
		s.queue, s.size = append(s.queue, f), s.size+len(f)
	}
}

// applyFaults returns the events to deliver instead of the given event. It applies the faults that drop, duplicate or
// reorder events, which an API server never does.
func (s *stream) applyFaults(frame []byte) [][]byte {
	if isBookmark(frame) {
		return [][]byte{frame}
	}
	out := [][]byte{frame}
	for x := range s.faults {
		switch x.Fault.Kind {
		case v1alpha1.APILoseEvents:
			out = nil
		case v1alpha1.APIDoubleEvents:
			out = append(out, out...)
		case v1alpha1.APIReorderEvents:
			if s.reordered == nil && len(out) > 0 {
				s.reordered, out = frame, nil
			} else if s.reordered != nil {
				out, s.reordered = append(out, s.reordered), nil
			}
		}
	}
	return out
}

// isHeld reports whether a fault is holding the watch.
func (s *stream) isHeld() bool {
	for x := range s.faults {
		if x.Fault.Kind == v1alpha1.APIHoldWatch {
			return true
		}
	}
	return false
}

// Read implements io.Reader. It blocks while the queue is empty or the watch is held.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.current) == 0 {
		switch {
		case s.closed:
			return 0, http.ErrBodyReadAfterClose
		case !s.isHeld() && len(s.queue) > 0:
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

// abandon ends the stream and discards queued events, even if the watch is held.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.queue, s.size, s.err = nil, nil, 0, context.Canceled
	s.changed.Broadcast()
}

// Close ends the stream. It blocks until follow has returned.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.stopAbandon()
	s.onClose()
	err := s.body.Close()
	s.following.Wait()
	return err
}

// addFault applies a fault to all subsequent events until removeFault is called.
func (s *stream) addFault(x *fault.Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[x] = true
}

func (s *stream) removeFault(x *fault.Active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.faults, x)
	if x.Fault.Kind == v1alpha1.APIReorderEvents && s.reordered != nil {
		s.add(s.reordered) // no later event is delivered first any more
		s.reordered = nil
	}
	s.changed.Broadcast()
}

// cut ends the watch after the event that the controller is reading. It discards queued events, because the next
// watch starts after the last event that the controller has read.
func (s *stream) cut() {
	s.mu.Lock()
	s.queue, s.size, s.err = nil, 0, io.EOF
	s.changed.Broadcast()
	s.mu.Unlock()
	_ = s.body.Close() // the rest is discarded
}
