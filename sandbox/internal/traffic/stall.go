package traffic

import (
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// watchTime is the pause between two looks at a processor, and between two echoes.
const watchTime = 50 * time.Millisecond

// stalls notices when a processor of this machine does nothing for a while, as a virtual one does
// whose host is busy: what runs there stands still, and a base that accepts its connections there
// answers nobody, while the generator goes on in time on another one. And it notices when this process
// has more to do than it gets processors for: what is due is done in time then, and what comes by a
// connection waits. The zero value watches nothing.
type stalls struct {
	mu    sync.Mutex
	notes map[*ledger]bool
	stop  chan struct{} // set while there are any
}

// watch tells the ledger of a stream about delays until done is closed.
func (s *stalls) watch(l *ledger, done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.notes) == 0 {
		s.notes, s.stop = map[*ledger]bool{}, make(chan struct{})
		for _, cpu := range processors() {
			go follow(cpu, s.note, s.stop)
		}
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			go closeEach(l)
			go echoes(l, s.note, s.stop)
		}
	}
	s.notes[l] = true
	go func() {
		<-done
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.notes, l); len(s.notes) == 0 {
			close(s.stop)
		}
	}()
}

func (s *stalls) note(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.notes {
		l.delayed(late)
	}
}

// follow says again and again how late a thread woke up that runs on one processor only. It ends
// after stop is closed.
func follow(cpu int, note func(late time.Duration), stop <-chan struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if pin(cpu) != nil {
		return
	}
	for {
		due := time.Now().Add(watchTime)
		select {
		case <-time.After(watchTime):
			note(time.Since(due))
		case <-stop:
			return
		}
	}
}

// echoes says again and again how long a connection within this process takes to be answered, also while it
// waits for that. After stop is closed it ends, and closes the listener.
func echoes(l net.Listener, note func(late time.Duration), stop <-chan struct{}) {
	defer func() { _ = l.Close() }()
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	var sent time.Time // zero = none is on its way
	back := make(chan struct{}, 1)
	for {
		select {
		case <-tick.C:
			if !sent.IsZero() {
				note(time.Since(sent))
				continue
			}
			sent = time.Now()
			go func() {
				echo(l.Addr())
				back <- struct{}{}
			}()
		case <-back:
			note(time.Since(sent))
			sent = time.Time{}
		case <-stop:
			return
		}
	}
}

// echo makes a connection and waits for its answer.
func echo(addr net.Addr) {
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c) // until it is closed
	_ = c.Close()
}

// closeEach closes each connection that comes, until the listener is closed.
func closeEach(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _ = c.Close() }()
	}
}
