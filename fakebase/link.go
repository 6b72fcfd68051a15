package fakebase

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// link is the network between a base and its broker: it delays, doubles,
// reorders, ages and spoils messages as the faults say. Without faults a
// message passes through it and nothing is kept.
type link struct {
	l    *life
	send func(topic string, payload []byte) error

	mu    sync.Mutex
	held  []func()  // messages that wait for the next one
	queue []inOrder // of a slow link
	busy  bool      // the head of the queue has a timer
}

type inOrder struct {
	due time.Time
	do  func()
}

// publish sends data in an envelope. The error is that of sending at once;
// what is sent later and fails is logged.
func (k *link) publish(topic string, data []byte) error {
	fs := &k.l.b.faults
	sub := subject{message: topic[strings.LastIndexByte(topic, '/')+1:]}
	at := k.l.now()
	if f, hit := fs.fire(fault.KindStale, sub); hit {
		at = at.Add(-cmp.Or(f.wait, k.l.b.opts.of(11*time.Second)))
	}
	payload := envelope(data, at)
	if _, hit := fs.fire(fault.KindCorrupt, sub); hit {
		payload = spoil(payload)
	}
	now := func() error { return k.send(topic, payload) }
	if _, hit := fs.fire(fault.KindDuplicate, sub); hit {
		once := now
		now = func() error {
			if err := once(); err != nil {
				return err
			}
			return once()
		}
	}
	later := func() {
		if err := now(); err != nil {
			k.l.log.Debug("message not sent", "topic", topic, "err", err)
		}
	}
	if f, hit := fs.fire(fault.KindSlowLink, sub); hit {
		k.enqueue(f.wait, later)
		return nil
	}
	if f, hit := fs.fire(fault.KindDelay, sub); hit {
		k.l.after(f.wait, later)
		return nil
	}
	if f, hit := fs.fire(fault.KindReorder, sub); hit {
		k.hold(cmp.Or(f.wait, k.l.b.opts.of(time.Second)), later)
		return nil
	}
	err := now()
	k.releaseHeld()
	return err
}

// deliver hands a received message on, later if the link is slow.
func (k *link) deliver(do func()) {
	if f, hit := k.l.b.faults.fire(fault.KindSlowLink, subject{}); hit {
		k.enqueue(f.wait, do)
		return
	}
	do()
}

// hold keeps a message until the next one has been sent, or for d.
func (k *link) hold(d time.Duration, do func()) {
	k.mu.Lock()
	k.held = append(k.held, do)
	k.mu.Unlock()
	k.l.after(d, k.releaseHeld)
}

func (k *link) releaseHeld() {
	k.mu.Lock()
	held := k.held
	k.held = nil
	k.mu.Unlock()
	for _, do := range held {
		do()
	}
}

// enqueue puts a message behind those that wait: a slow link keeps order.
func (k *link) enqueue(d time.Duration, do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, inOrder{time.Now().Add(d), do})
	if !k.busy {
		k.busy = true
		k.l.after(d, k.advance)
	}
}

// advance passes on what is due and waits for the rest.
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
			k.l.after(wait, k.advance)
			return
		}
		k.queue = k.queue[1:]
		k.mu.Unlock()
		head.do()
	}
}

// spoil corrupts the second half of a message, always in the same way.
func spoil(payload []byte) []byte {
	out := append([]byte(nil), payload...)
	for i := len(out) / 2; i < len(out); i++ {
		out[i] ^= 0x5a
	}
	return out
}
