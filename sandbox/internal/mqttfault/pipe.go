package mqttfault

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

// pipe is one direction of a connection.
type pipe struct {
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

func newPipe(c *conn, d v1alpha1.Direction) *pipe {
	return &pipe{c: c, direction: d, greeting: d == v1alpha1.ToBroker, changed: make(chan struct{})}
}

// tell wakes who waits; p.mu is held.
func (p *pipe) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// busy reports whether what is read next waits in the pipe, or comes through it.
func (p *pipe) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serving
}

// passes reports whether data passes untouched, and notes where its packets end.
func (p *pipe) passes(data []byte) bool {
	p.mu.Lock()
	p.serving = p.serving || p.c.tapped.Load() && !p.greeting
	if p.serving {
		p.mu.Unlock()
		return false
	}
	var first []byte
	for len(data) > 0 {
		n, ends := p.frame.next(data)
		if p.greeting {
			p.packet = append(p.packet, data[:n]...)
			if ends {
				first, p.packet, p.greeting = p.packet, nil, false
			}
		}
		data = data[n:]
	}
	p.raw = !p.frame.begins()
	p.mu.Unlock()
	if first != nil {
		p.c.greet(first)
	}
	return true
}

// ended reports whether the connection was ended, as the network does.
func (p *pipe) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// feed takes what has come, and how it ends if it does.
func (p *pipe) feed(data []byte, err error) {
	p.feeding.Lock()
	defer p.feeding.Unlock()
	for len(data) > 0 {
		n, ends := p.frame.next(data) // nobody else uses the frame of a pipe that is fed
		switch {
		case p.raw:
			p.push(item{data: append([]byte(nil), data[:n]...), due: time.Now()})
			p.raw = !ends
		default:
			p.packet = append(p.packet, data[:n]...)
			if ends {
				whole := p.packet
				p.packet = nil
				p.judged(parse(whole, p.c.version))
			}
		}
		data = data[n:]
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.cut { // else the network has ended it, and its user reads that
			p.err = err
		}
		p.tell()
	}
}

// judged does with a packet what the rules say.
func (p *pipe) judged(m *packet) {
	if !p.c.acknowledged(p, m) {
		return
	}
	v := p.c.view.judge(p.c, p.direction, m)
	switch {
	case v.shut:
		p.c.shut()
		return
	case v.kill && v.lose:
		p.c.view.o.Kill(p.c.client.Replica)
		return
	case v.lose:
		return
	}
	x := item{data: m.data, due: time.Now().Add(v.delay)}
	if v.kill {
		x.after = func() { p.c.view.o.Kill(p.c.client.Replica) }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case v.aside && len(p.aside) == 0:
		p.aside, p.asideTopic = append(p.aside, x), m.topic
		time.AfterFunc(asideFor, p.release)
	case len(p.aside) > 0 && m.kind == packets.Publish && m.topic == p.asideTopic:
		p.aside = append(p.aside, x)
	default:
		p.pushed(x)
		if v.again && m.qos == 1 && p.c.version < 5 {
			if p.twice == nil {
				p.twice = map[uint16]int{}
			}
			p.twice[m.id]++
			p.pushed(item{data: m.twice(), due: x.due})
		}
		if m.kind == packets.Publish {
			p.released()
		}
	}
}

// release lets what was put aside come, after all.
func (p *pipe) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released()
}

func (p *pipe) released() {
	for _, x := range p.aside {
		p.pushed(x)
	}
	p.aside = nil
}

// doubled reports whether a message of an id was delivered twice and one acknowledgement of it has to go,
// which is this one.
func (p *pipe) doubled(id uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.twice[id] == 0 {
		return false
	}
	p.twice[id]--
	if p.twice[id] == 0 {
		delete(p.twice, id)
	}
	return true
}

func (p *pipe) push(x item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pushed(x)
}

func (p *pipe) pushed(x item) {
	if p.cut {
		return
	}
	if n := len(p.queue); n > 0 && x.due.Before(p.queue[n-1].due) {
		x.due = p.queue[n-1].due // the order stays
	}
	p.queue = append(p.queue, x)
	p.tell()
	if p.deliver != nil && !p.delivers {
		p.delivers = true
		go p.serve()
	}
}

// serve delivers what comes out, while there is something.
func (p *pipe) serve() {
	for {
		x, more := p.next()
		if !more {
			return
		}
		if _, err := p.deliver(x.data); err != nil {
			p.c.shut()
			return
		}
		if x.after != nil {
			x.after()
		}
	}
}

// next waits for what is to be delivered next; nothing more is when the queue is empty, or the
// connection has ended.
func (p *pipe) next() (x item, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.queue) > 0 && p.due() {
			return p.pop(), true
		}
		if len(p.queue) == 0 || !p.wait(time.Time{}) {
			p.delivers = false
			return item{}, false
		}
	}
}

func (p *pipe) pop() item {
	x := p.queue[0]
	p.queue = p.queue[1:]
	return x
}

// due reports whether the first of the queue may come now.
func (p *pipe) due() bool { return !p.held && !time.Now().Before(p.queue[0].due) }

// read reads what has come out, and waits for it until the deadline.
func (p *pipe) read(buffer []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case len(p.ready) > 0:
			n := copy(buffer, p.ready)
			p.ready = p.ready[n:]
			return n, nil
		case len(p.queue) > 0 && p.due():
			x := p.pop()
			p.ready = x.data
			if x.after != nil {
				go x.after()
			}
		case len(p.queue) == 0 && p.err != nil:
			return 0, p.err
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return 0, os.ErrDeadlineExceeded
		case !p.wait(p.deadline):
			return 0, net.ErrClosed
		}
	}
}

// wait waits until something changes, the first of the queue is due, or a time has come; false when the
// connection is closed. p.mu is held, but not in the meantime.
func (p *pipe) wait(until time.Time) bool {
	if len(p.queue) > 0 && !p.held && (until.IsZero() || p.queue[0].due.Before(until)) {
		until = p.queue[0].due
	}
	var passed <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		passed = timer.C
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-passed:
	case <-p.c.closed:
		return false
	}
	return true
}

// setDeadline notes the deadline of read, and reports whether that is all that it is for.
func (p *pipe) setDeadline(t time.Time) (enough bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	if p.serving {
		p.tell()
	}
	return p.serving
}

// hold keeps back what comes, or lets it come.
func (p *pipe) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != held {
		p.held = held
		p.tell()
	}
}

// end ends the pipe: nothing that waits comes any more.
func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue, p.aside, p.ready, p.err, p.cut = nil, nil, nil, io.EOF, true
	p.tell()
}
