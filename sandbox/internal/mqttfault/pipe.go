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

// reorderTimeout is how long a reordered message waits for a message of another topic.
const reorderTimeout = time.Second

// pipe delivers the packets in one direction of a connection, with faults applied.
type pipe struct {
	c         *conn
	direction v1alpha1.Direction
	// deliver sends a packet to its receiver. If it is nil, the receiver calls read instead.
	deliver func([]byte) (int, error)

	feeding sync.Mutex // held while feed is running

	mu             sync.Mutex
	framer         framer
	packet         []byte // received part of the packet to which faults will be applied
	midPacket      bool   // whether the current packet began before the pipe was active
	awaitsConnect  bool   // whether the first packet (CONNECT) is still incomplete
	queue          []queuedPacket
	reordered      []queuedPacket // messages of reorderedTopic that wait for one of another topic
	reorderedTopic string
	duplicateAcks  map[uint16]int // number of acknowledgements to drop, by packet ID
	unread         []byte         // unread bytes of the packet that the receiver is reading
	err            error          // error that read returns once the queue is empty
	held           bool
	ended          bool // whether end was called
	active         bool // whether all data passes through the queue
	draining       bool // whether drain is running
	deadline       time.Time
	changed        chan struct{} // closed and replaced when the state changes
}

// queuedPacket is a packet that waits for delivery.
type queuedPacket struct {
	data          []byte
	due           time.Time
	afterDelivery func() // called after the delivery; may be nil
}

func newPipe(c *conn, d v1alpha1.Direction) *pipe {
	return &pipe{c: c, direction: d, awaitsConnect: d == v1alpha1.ToBroker, changed: make(chan struct{})}
}

// notify unblocks all goroutines that wait for a state change. The caller holds p.mu.
func (p *pipe) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// isActive reports whether all data passes through the queue.
func (p *pipe) isActive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active
}

// passThrough reports whether to forward data without the queue. It also tracks the packet boundaries in data.
func (p *pipe) passThrough(data []byte) bool {
	p.mu.Lock()
	p.active = p.active || p.c.piped.Load() && !p.awaitsConnect
	if p.active {
		p.mu.Unlock()
		return false
	}
	var first []byte
	for len(data) > 0 {
		n, ends := p.framer.next(data)
		if p.awaitsConnect {
			p.packet = append(p.packet, data[:n]...)
			if ends {
				first, p.packet, p.awaitsConnect = p.packet, nil, false
			}
		}
		data = data[n:]
	}
	p.midPacket = !p.framer.atPacketStart()
	p.mu.Unlock()
	if first != nil {
		p.c.identify(first)
	}
	return true
}

// isEnded reports whether the pipe was closed, for example by a fault.
func (p *pipe) isEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// feed splits received data into packets and handles each packet. err is the error that ended the connection, or nil.
func (p *pipe) feed(data []byte, err error) {
	p.feeding.Lock()
	defer p.feeding.Unlock()
	for len(data) > 0 {
		n, ends := p.framer.next(data) // an active pipe uses its framer only here
		switch {
		case p.midPacket:
			p.enqueue(queuedPacket{data: append([]byte(nil), data[:n]...), due: time.Now()})
			p.midPacket = !ends
		default:
			p.packet = append(p.packet, data[:n]...)
			if ends {
				complete := p.packet
				p.packet = nil
				p.handle(parse(complete, p.c.version))
			}
		}
		data = data[n:]
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended { // otherwise, read returns io.EOF
			p.err = err
		}
		p.notify()
	}
}

// handle applies the faults to a packet and queues the packet unless a fault drops it.
func (p *pipe) handle(m *packet) {
	if !p.c.forwardsAck(p, m) {
		return
	}
	e := p.c.injector.applyFaults(p.c, p.direction, m)
	switch {
	case e.disconnect:
		p.c.disconnect()
		return
	case e.kill && e.drop:
		p.c.injector.o.Kill(p.c.client.Replica)
		return
	case e.drop:
		return
	}
	x := queuedPacket{data: m.data, due: time.Now().Add(e.delay)}
	if e.kill {
		x.afterDelivery = func() { p.c.injector.o.Kill(p.c.client.Replica) }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.reorder && len(p.reordered) == 0:
		p.reordered, p.reorderedTopic = append(p.reordered, x), m.topic
		time.AfterFunc(reorderTimeout, p.flushReordered)
	case len(p.reordered) > 0 && m.kind == packets.Publish && m.topic == p.reorderedTopic:
		p.reordered = append(p.reordered, x)
	default:
		p.enqueueLocked(x)
		if e.duplicate && m.qos == 1 && p.c.version < 5 {
			if p.duplicateAcks == nil {
				p.duplicateAcks = map[uint16]int{}
			}
			p.duplicateAcks[m.id]++
			p.enqueueLocked(queuedPacket{data: m.duplicate(), due: x.due})
		}
		if m.kind == packets.Publish {
			p.flushReorderedLocked()
		}
	}
}

// flushReordered moves the reordered messages to the queue.
func (p *pipe) flushReordered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushReorderedLocked()
}

func (p *pipe) flushReorderedLocked() {
	for _, x := range p.reordered {
		p.enqueueLocked(x)
	}
	p.reordered = nil
}

// takeDuplicateAck reports whether to drop an acknowledgement with the given packet ID, because the acknowledged
// message was duplicated. It returns true once per duplicate.
func (p *pipe) takeDuplicateAck(id uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.duplicateAcks[id] == 0 {
		return false
	}
	p.duplicateAcks[id]--
	if p.duplicateAcks[id] == 0 {
		delete(p.duplicateAcks, id)
	}
	return true
}

func (p *pipe) enqueue(x queuedPacket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueueLocked(x)
}

func (p *pipe) enqueueLocked(x queuedPacket) {
	if p.ended {
		return
	}
	if n := len(p.queue); n > 0 && x.due.Before(p.queue[n-1].due) {
		x.due = p.queue[n-1].due // keep the order
	}
	p.queue = append(p.queue, x)
	p.notify()
	if p.deliver != nil && !p.draining {
		p.draining = true
		go p.drain()
	}
}

// drain delivers queued packets. It blocks until the queue is empty or the connection ends.
func (p *pipe) drain() {
	for {
		x, more := p.next()
		if !more {
			return
		}
		if _, err := p.deliver(x.data); err != nil {
			p.c.disconnect()
			return
		}
		if x.afterDelivery != nil {
			x.afterDelivery()
		}
	}
}

// next blocks until the first queued packet is due, and removes this packet from the queue. It returns false if the
// queue is empty or the connection has ended.
func (p *pipe) next() (x queuedPacket, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.queue) > 0 && p.headIsDue() {
			return p.pop(), true
		}
		if len(p.queue) == 0 || !p.wait(time.Time{}) {
			p.draining = false
			return queuedPacket{}, false
		}
	}
}

func (p *pipe) pop() queuedPacket {
	x := p.queue[0]
	p.queue = p.queue[1:]
	return x
}

// headIsDue reports whether the first queued packet can be delivered now.
func (p *pipe) headIsDue() bool { return !p.held && !time.Now().Before(p.queue[0].due) }

// read reads the next bytes of the queued packets into buffer. It blocks until a packet is due, the deadline has
// passed, or the connection ends.
func (p *pipe) read(buffer []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case len(p.unread) > 0:
			n := copy(buffer, p.unread)
			p.unread = p.unread[n:]
			return n, nil
		case len(p.queue) > 0 && p.headIsDue():
			x := p.pop()
			p.unread = x.data
			if x.afterDelivery != nil {
				go x.afterDelivery()
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

// wait blocks until the state changes, the first queued packet is due, or the time until is reached. It returns false
// if the connection is closed. The caller holds p.mu, which wait unlocks while it blocks.
func (p *pipe) wait(until time.Time) bool {
	if len(p.queue) > 0 && !p.held && (until.IsZero() || p.queue[0].due.Before(until)) {
		until = p.queue[0].due
	}
	var expired <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		expired = timer.C
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-expired:
	case <-p.c.closed:
		return false
	}
	return true
}

// setDeadline sets the deadline for read, and reports whether the pipe is active. If the pipe is not active, the
// caller must also set the deadline of the connection.
func (p *pipe) setDeadline(t time.Time) (active bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	if p.active {
		p.notify()
	}
	return p.active
}

// hold stops the delivery of queued packets if held is true, and resumes it otherwise.
func (p *pipe) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != held {
		p.held = held
		p.notify()
	}
}

// end closes the pipe and discards its queued packets.
func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue, p.reordered, p.unread, p.err, p.ended = nil, nil, nil, io.EOF, true
	p.notify()
}
