package fakebase

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// link is the network link between a base and its broker. It applies faults to the messages on the link.
type link struct {
	l    *incarnation
	send func(topic string, payload []byte) error

	mu           sync.Mutex
	heldMessages []func()        // messages that are held until the next message is sent
	queue        []queuedMessage // messages that are waiting on a slow link
	busy         bool            // a timer is running for the head of the queue
}

type queuedMessage struct {
	due  time.Time
	send func()
}

// publish sends data in an envelope. It returns an error if sending fails immediately. It logs the errors of delayed
// messages.
func (k *link) publish(topic string, data []byte) error {
	fs := &k.l.b.faults
	sub := subject{message: topic[strings.LastIndexByte(topic, '/')+1:]}
	at := k.l.now()
	if f, hit := fs.trigger(fault.KindStale, sub); hit {
		at = at.Add(-cmp.Or(f.wait, k.l.b.opts.scaled(11*time.Second)))
	}
	payload := envelope(data, at)
	if _, hit := fs.trigger(fault.KindCorrupt, sub); hit {
		payload = corrupt(payload)
	}
	send := func() error { return k.send(topic, payload) }
	if _, hit := fs.trigger(fault.KindDuplicate, sub); hit {
		sendOnce := send
		send = func() error {
			if err := sendOnce(); err != nil {
				return err
			}
			return sendOnce()
		}
	}
	sendLater := func() {
		if err := send(); err != nil {
			k.l.log.Debug("could not publish a message", "topic", topic, "err", err)
		}
	}
	if f, hit := fs.trigger(fault.KindSlowLink, sub); hit {
		k.enqueue(f.wait, sendLater)
		return nil
	}
	if f, hit := fs.trigger(fault.KindDelay, sub); hit {
		k.l.runAfter(f.wait, sendLater)
		return nil
	}
	if f, hit := fs.trigger(fault.KindReorder, sub); hit {
		k.holdForReorder(cmp.Or(f.wait, k.l.b.opts.scaled(time.Second)), sendLater)
		return nil
	}
	err := send()
	k.releaseHeld()
	return err
}

// deliver passes a received message to the base. If the link is slow, it delays the message.
func (k *link) deliver(send func()) {
	if f, hit := k.l.b.faults.trigger(fault.KindSlowLink, subject{}); hit {
		k.enqueue(f.wait, send)
		return
	}
	send()
}

// holdForReorder holds a message until the next message has been sent, but at most for d.
func (k *link) holdForReorder(d time.Duration, send func()) {
	k.mu.Lock()
	k.heldMessages = append(k.heldMessages, send)
	k.mu.Unlock()
	k.l.runAfter(d, k.releaseHeld)
}

func (k *link) releaseHeld() {
	k.mu.Lock()
	held := k.heldMessages
	k.heldMessages = nil
	k.mu.Unlock()
	for _, do := range held {
		do()
	}
}

// enqueue queues a message on a slow link. The queue preserves the order of messages.
func (k *link) enqueue(d time.Duration, send func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, queuedMessage{time.Now().Add(d), send})
	if !k.busy {
		k.busy = true
		k.l.runAfter(d, k.advance)
	}
}

// advance sends or delivers the messages in the queue that are due.
func (k *link) advance() {
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.busy, k.queue = false, nil
			k.mu.Unlock()
			return
		}
		head := k.queue[0]
		if wait := time.Until(head.due); wait > 0 {
			k.mu.Unlock()
			k.l.runAfter(wait, k.advance)
			return
		}
		k.queue = k.queue[1:]
		k.mu.Unlock()
		head.send()
	}
}

// corrupt corrupts the second half of a message. The result is deterministic: it depends only on the message.
func corrupt(payload []byte) []byte {
	out := append([]byte(nil), payload...)
	for i := len(out) / 2; i < len(out); i++ {
		out[i] ^= 0x5a
	}
	return out
}
