package traffic

import (
	"runtime"
	"sync"
	"time"
)

// watchTime is the pause between two looks at a processor.
const watchTime = 50 * time.Millisecond

// stalls notices when a processor of this machine does nothing for a while, as a virtual one does
// whose host is busy: what runs there stands still, and a base that accepts its connections there
// answers nobody, while the generator goes on in time on another one. The zero value watches nothing.
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
