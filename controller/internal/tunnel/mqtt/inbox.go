package mqtt

import "sync"

// Limits for an inbox.
const (
	inboxWorkers = 8
	inboxOfBase  = 4 << 20  // bytes
	inboxOfAll   = 64 << 20 // bytes
	// messageCost is the estimated memory of a message in addition to its payload.
	messageCost = 512
)

// inbox handles messages in several goroutines, so that a slow message does not block the connection or messages from
// other bases. It handles the messages from one base in order, and takes turns between bases. The methods are safe
// for concurrent use.
type inbox struct {
	mu          sync.Mutex
	ready       sync.Cond // signals a new element of readyQueues, or that the inbox was stopped
	bases       map[string]*baseQueue
	readyQueues []*baseQueue // bases that have queued messages but no worker
	size        int
	stopped     bool
	workers     sync.WaitGroup
}

// baseQueue contains the queued messages from one base.
type baseQueue struct {
	identity string
	waiting  []message
	size     int // size in bytes, including the message that is being handled
}

type message struct {
	size int
	work func()
}

func newInbox(workers int) *inbox {
	b := &inbox{bases: map[string]*baseQueue{}}
	b.ready.L = &b.mu
	for range workers {
		b.workers.Go(b.run)
	}
	return b
}

// put queues a message with a size in bytes. It does not block. It returns false if a limit is reached.
func (b *inbox) put(identity string, size int, work func()) bool {
	size += messageCost
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.bases[identity]
	if b.stopped || b.size+size > inboxOfAll || l != nil && l.size+size > inboxOfBase {
		return false
	}
	if l == nil {
		l = &baseQueue{identity: identity}
		b.bases[identity] = l
		b.readyQueues = append(b.readyQueues, l)
		b.ready.Signal()
	}
	l.waiting = append(l.waiting, message{size, work})
	l.size += size
	b.size += size
	return true
}

func (b *inbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.readyQueues) == 0 && !b.stopped {
			b.ready.Wait()
		}
		if b.stopped {
			return
		}
		l := b.readyQueues[0]
		b.readyQueues = b.readyQueues[1:]
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
		b.readyQueues = append(b.readyQueues, l)
		b.ready.Signal()
	}
}

// stop discards the queued messages, and waits until the workers have stopped.
func (b *inbox) stop() {
	b.mu.Lock()
	b.stopped = true
	b.ready.Broadcast()
	b.mu.Unlock()
	b.workers.Wait()
}
