package mqttview

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// asideFor is how long a message waits for one of another topic that it is to come after.
const asideFor = time.Second

// lane is one direction of a connection.
type lane struct {
	c         *conn
	direction v1alpha1.Direction
	// deliver takes what comes out; nil = read does.
	deliver func([]byte) (int, error)

	feeding sync.Mutex // one at a time feeds

	mu         sync.Mutex
	frame      frame
	packet     []byte // what has come of the packet that is coming, if it is judged
	raw        bool   // its beginning has passed unjudged
	greeting   bool   // the first packet is to come
	queue      []item
	aside      []item // messages of asideTopic that let one of another topic pass
	asideTopic string
	twice      map[uint16]int
	ready      []byte // of the first of the queue, what is to be read
	err        error  // how it ends after the queue
	held       bool
	cut        bool // end was called
	serving    bool // everything goes through the queue
	delivers   bool // deliver is called
	deadline   time.Time
	changed    chan struct{}
}

// item is what waits.
type item struct {
	data  []byte
	due   time.Time
	after func() // is called when it has come; nil = nothing is
}

func newLane(c *conn, d v1alpha1.Direction) *lane {
	return &lane{c: c, direction: d, greeting: d == v1alpha1.ToBroker, changed: make(chan struct{})}
}

// tell wakes who waits; l.mu is held.
func (l *lane) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// busy tells whether what is read next waits in the lane, or comes through it.
func (l *lane) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serving
}

// passes tells whether data passes untouched, and notes where its packets end.
func (l *lane) passes(data []byte) bool {
	l.mu.Lock()
	l.serving = l.serving || l.c.tapped.Load() && !l.greeting
	if l.serving {
		l.mu.Unlock()
		return false
	}
	var first []byte
	for len(data) > 0 {
		n, ends := l.frame.next(data)
		if l.greeting {
			l.packet = append(l.packet, data[:n]...)
			if ends {
				first, l.packet, l.greeting = l.packet, nil, false
			}
		}
		data = data[n:]
	}
	l.raw = !l.frame.begins()
	l.mu.Unlock()
	if first != nil {
		l.c.greet(first)
	}
	return true
}

// ended tells whether the connection was ended, as the network does.
func (l *lane) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// feed takes what has come, and how it ends if it does.
func (l *lane) feed(data []byte, err error) {
	l.feeding.Lock()
	defer l.feeding.Unlock()
	for len(data) > 0 {
		n, ends := l.frame.next(data) // nobody else uses the frame of a lane that is fed
		switch {
		case l.raw:
			l.push(item{data: append([]byte(nil), data[:n]...), due: time.Now()})
			l.raw = !ends
		default:
			l.packet = append(l.packet, data[:n]...)
			if ends {
				whole := l.packet
				l.packet = nil
				l.judged(parse(whole, l.c.version))
			}
		}
		data = data[n:]
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.cut { // else the network has ended it, and its user reads that
			l.err = err
		}
		l.tell()
	}
}

// judged does with a packet what the rules say.
func (l *lane) judged(m *packet) {
	if !l.c.acknowledged(l, m) {
		return
	}
	v := l.c.view.judge(l.c, l.direction, m)
	switch {
	case v.shut:
		l.c.shut()
		return
	case v.kill && v.lose:
		l.c.view.o.Kill(l.c.party.Replica)
		return
	case v.lose:
		return
	}
	x := item{data: m.data, due: time.Now().Add(v.delay)}
	if v.kill {
		x.after = func() { l.c.view.o.Kill(l.c.party.Replica) }
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case v.aside && len(l.aside) == 0:
		l.aside, l.asideTopic = append(l.aside, x), m.topic
		time.AfterFunc(asideFor, l.release)
	case len(l.aside) > 0 && m.kind == packets.Publish && m.topic == l.asideTopic:
		l.aside = append(l.aside, x)
	default:
		l.pushed(x)
		if v.again && m.qos == 1 && l.c.version < 5 {
			if l.twice == nil {
				l.twice = map[uint16]int{}
			}
			l.twice[m.id]++
			l.pushed(item{data: m.twice(), due: x.due})
		}
		if m.kind == packets.Publish {
			l.released()
		}
	}
}

// release lets what was put aside come, after all.
func (l *lane) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released()
}

func (l *lane) released() {
	for _, x := range l.aside {
		l.pushed(x)
	}
	l.aside = nil
}

// doubled tells whether a message of an id was delivered twice and one acknowledgement of it has to go,
// which is this one.
func (l *lane) doubled(id uint16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.twice[id] == 0 {
		return false
	}
	if l.twice[id]--; l.twice[id] == 0 {
		delete(l.twice, id)
	}
	return true
}

func (l *lane) push(x item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pushed(x)
}

func (l *lane) pushed(x item) {
	if l.cut {
		return
	}
	if n := len(l.queue); n > 0 && x.due.Before(l.queue[n-1].due) {
		x.due = l.queue[n-1].due // the order stays
	}
	l.queue = append(l.queue, x)
	l.tell()
	if l.deliver != nil && !l.delivers {
		l.delivers = true
		go l.serve()
	}
}

// serve delivers what comes out, while there is something.
func (l *lane) serve() {
	for {
		x, more := l.next()
		if !more {
			return
		}
		if _, err := l.deliver(x.data); err != nil {
			l.c.shut()
			return
		}
		if x.after != nil {
			x.after()
		}
	}
}

// next waits for what is to be delivered next; nothing more is when the queue is empty, or the
// connection has ended.
func (l *lane) next() (x item, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if len(l.queue) > 0 && l.due() {
			return l.pop(), true
		}
		if len(l.queue) == 0 || !l.wait(time.Time{}) {
			l.delivers = false
			return item{}, false
		}
	}
}

// pop takes the first of the queue.
func (l *lane) pop() item {
	x := l.queue[0]
	l.queue = l.queue[1:]
	return x
}

// due tells whether the first of the queue may come now.
func (l *lane) due() bool { return !l.held && !time.Now().Before(l.queue[0].due) }

// read reads what has come out, and waits for it until the deadline.
func (l *lane) read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case len(l.ready) > 0:
			n := copy(p, l.ready)
			l.ready = l.ready[n:]
			return n, nil
		case len(l.queue) > 0 && l.due():
			x := l.pop()
			if l.ready = x.data; x.after != nil {
				go x.after()
			}
		case len(l.queue) == 0 && l.err != nil:
			return 0, l.err
		case !l.deadline.IsZero() && !time.Now().Before(l.deadline):
			return 0, os.ErrDeadlineExceeded
		case !l.wait(l.deadline):
			return 0, net.ErrClosed
		}
	}
}

// wait waits until something changes, the first of the queue is due, or a time has come; false when the
// connection is closed. l.mu is held, but not meanwhile.
func (l *lane) wait(until time.Time) bool {
	if len(l.queue) > 0 && !l.held && (until.IsZero() || l.queue[0].due.Before(until)) {
		until = l.queue[0].due
	}
	var passed <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		passed = timer.C
	}
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
	case <-passed:
	case <-l.c.closed:
		return false
	}
	return true
}

// setDeadline notes the deadline of read, and tells whether that is all that it is for.
func (l *lane) setDeadline(t time.Time) (enough bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	if l.serving {
		l.tell()
	}
	return l.serving
}

// hold keeps back what comes, or lets it come.
func (l *lane) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != held {
		l.held = held
		l.tell()
	}
}

// end ends the lane: nothing that waits comes any more.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.aside, l.ready, l.err, l.cut = nil, nil, nil, io.EOF, true
	l.tell()
}
