package traffic

import (
	"errors"
	"io"
	"os"
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
// connection or a pipe waits. The zero value watches nothing.
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
		if echo, err := mirror(s.stop); err == nil {
			go echoes(echo, s.note, s.stop)
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

// echoes says again and again how long an echo takes to come back, also while it waits for that. It ends
// after stop is closed.
func echoes(echo func(), note func(late time.Duration), stop <-chan struct{}) {
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
				echo()
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

// mirror returns what sends a byte to a goroutine of this process and waits until it has come back. Pipes wait for the
// kernel to say that there is something to read, as connections do, and nobody else can reach them. They are
// closed after stop is, which ends the waiting.
func mirror(stop <-chan struct{}) (echo func(), err error) {
	hears, there, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	back, says, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, hears.Close(), there.Close())
	}
	go func() {
		_, _ = io.Copy(says, hears) // until there is closed
		_, _ = hears.Close(), says.Close()
	}()
	go func() {
		<-stop
		_, _ = there.Close(), back.Close()
	}()
	return func() {
		b := make([]byte, 1)
		_, _ = there.Write(b)
		_, _ = back.Read(b)
	}, nil
}
