package mqtt

import "sync"

// How much may wait in an inbox, and how many work on it.
const (
	inboxWorkers = 8
	inboxOfBase  = 4 << 20  // bytes
	inboxOfAll   = 64 << 20 // bytes
	// messageCost is what a message takes beside its bytes.
	messageCost = 512
)

// inbox has messages worked on by a few goroutines, so that a message that takes long holds up neither
// the connection nor other bases. The messages of one base are worked on one after the other, in order;
// the bases take turns. It may be used concurrently.
type inbox struct {
	mu      sync.Mutex
	ready   sync.Cond // a base has its turn, or the end
	bases   map[string]*letters
	turns   []*letters // bases with messages that nobody works on
	size    int
	stopped bool
	workers sync.WaitGroup
}

// letters are the messages of one base that wait.
type letters struct {
	identity string
	waiting  []letter
	size     int // with the one that is worked on
}

type letter struct {
	size int
	work func()
}

// newInbox starts so many workers; stop ends them.
func newInbox(workers int) *inbox {
	b := &inbox{bases: map[string]*letters{}}
	b.ready.L = &b.mu
	for range workers {
		b.workers.Go(b.run)
	}
	return b
}

// put has work done for a message of so many bytes. It does not block; false says that there is no
// room.
func (b *inbox) put(identity string, size int, work func()) bool {
	size += messageCost
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.bases[identity]
	if b.stopped || b.size+size > inboxOfAll || l != nil && l.size+size > inboxOfBase {
		return false
	}
	if l == nil {
		l = &letters{identity: identity}
		b.bases[identity] = l
		b.turns = append(b.turns, l)
		b.ready.Signal()
	}
	l.waiting = append(l.waiting, letter{size, work})
	l.size += size
	b.size += size
	return true
}

// run works on messages until stop.
func (b *inbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.turns) == 0 && !b.stopped {
			b.ready.Wait()
		}
		if b.stopped {
			return
		}
		l := b.turns[0]
		b.turns = b.turns[1:]
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		b.mu.Unlock()
		next.work()
		b.mu.Lock()
		l.size -= next.size
		b.size -= next.size
		if len(l.waiting) == 0 {
			delete(b.bases, l.identity)
			continue
		}
		b.turns = append(b.turns, l)
		b.ready.Signal()
	}
}

// stop drops what waits, and returns when nothing is worked on any more.
func (b *inbox) stop() {
	b.mu.Lock()
	b.stopped = true
	b.ready.Broadcast()
	b.mu.Unlock()
	b.workers.Wait()
}
