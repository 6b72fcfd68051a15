package broker

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeLimit is how many unread bytes a direction holds before a writer waits,
// as it would for a full socket buffer: far above what MQTT's own limits let
// come together, so that two ends that both write never wait for each other.
const pipeLimit = 1 << 20

// pipe returns the two ends of a connection in memory. In contrast to
// net.Pipe, writes are buffered; a direction with nothing unread holds no
// buffer worth mentioning, which matters for thousands of idle bases.
func pipe(name string) (net.Conn, net.Conn) {
	a, b := newStream(), newStream()
	return &pipeEnd{in: a, out: b, addr: pipeAddr(name)}, &pipeEnd{in: b, out: a, addr: pipeAddr(name)}
}

type pipeAddr string

func (pipeAddr) Network() string  { return "memory" }
func (a pipeAddr) String() string { return string(a) }

type pipeEnd struct {
	in, out *stream
	addr    pipeAddr
}

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }
func (e *pipeEnd) LocalAddr() net.Addr         { return e.addr }
func (e *pipeEnd) RemoteAddr() net.Addr        { return e.addr }

// Close ends both directions: what the peer has not read yet it still can, this
// end gets io.ErrClosedPipe.
func (e *pipeEnd) Close() error {
	e.in.close(true)
	e.out.close(false)
	return nil
}

func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.in.setDeadline(&e.in.reading, t)
	e.out.setDeadline(&e.out.writing, t)
	return nil
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.setDeadline(&e.in.reading, t)
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.setDeadline(&e.out.writing, t)
	return nil
}

// stream is one direction.
type stream struct {
	mu       sync.Mutex
	changed  sync.Cond
	unread   []byte
	next     int  // index in unread of the next byte to read
	ended    bool // the writer has closed: reads get io.EOF after the rest
	deserted bool // the reader has closed: nothing is wanted any more

	reading, writing deadline
}

// deadline wakes those who wait when its time comes. mochi moves the deadlines
// with every packet, so moving one to a later time must cost nothing: the timer
// stays and finds out when it fires.
type deadline struct {
	at    time.Time // zero = none
	fires time.Time // when the timer fires; zero = it does not run
	timer *time.Timer
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

func (d *deadline) passed() bool {
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

func (s *stream) setDeadline(d *deadline, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.at = at
	switch {
	case at.IsZero():
		return
	case !at.After(time.Now()):
		s.changed.Broadcast()
	case d.timer == nil:
		d.fires = at
		d.timer = time.AfterFunc(time.Until(at), func() { s.fired(d) })
	case d.fires.IsZero() || at.Before(d.fires):
		d.fires = at
		d.timer.Reset(time.Until(at))
	}
}

func (s *stream) fired(d *deadline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.fires = time.Time{}
	switch {
	case s.ended || s.deserted || d.at.IsZero():
	case d.passed():
		s.changed.Broadcast()
	default:
		d.fires = d.at
		d.timer.Reset(time.Until(d.at))
	}
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.deserted:
			return 0, io.ErrClosedPipe
		case s.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case s.next < len(s.unread):
			n := copy(p, s.unread[s.next:])
			s.next += n
			if s.next == len(s.unread) {
				s.unread, s.next = nil, 0
			}
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended, s.deserted:
			return 0, io.ErrClosedPipe
		case s.writing.passed():
			return 0, os.ErrDeadlineExceeded
		case len(s.unread)-s.next < pipeLimit:
			s.unread = append(s.unread, p...)
			s.changed.Broadcast()
			return len(p), nil
		}
		s.changed.Wait()
	}
}

func (s *stream) close(byReader bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if byReader {
		s.deserted, s.unread, s.next = true, nil, 0
	} else {
		s.ended = true
	}
	for _, d := range []*deadline{&s.reading, &s.writing} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
	s.changed.Broadcast()
}
