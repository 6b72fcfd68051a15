package main

import (
	"context"
	"sync"
)

// phase is a disturbance of everybody: steps, each of which happens once all its expectations have
// come so far.
type phase struct {
	// name is what expectations call it.
	name string
	// steps disturb; the first that fails ends the phase.
	steps []func(context.Context) error

	mu      sync.Mutex
	members int
	arrived int
	next    chan struct{} // closed when the current step is done
	err     error
}

// start says how many expectations take part.
func (p *phase) start(members int) {
	p.members, p.next = members, make(chan struct{})
}

// step waits until all are there and the next step of the phase is done.
func (w *world) step() {
	p := w.phase
	p.mu.Lock()
	p.arrived++
	done := p.next
	p.advance(w.ctx)
	p.mu.Unlock()
	select {
	case <-done:
	case <-w.ctx.Done():
		w.fail("the run ended before phase %s", p.name)
	}
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	w.must(err)
}

// leave takes an expectation out that has come out already.
func (p *phase) leave(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members--
	p.advance(ctx)
}

// advance makes the next step if all that take part wait for it. The caller holds the lock; the
// step is made without it.
func (p *phase) advance(ctx context.Context) {
	if p.arrived == 0 || p.arrived < p.members || len(p.steps) == 0 {
		return
	}
	do := p.steps[0]
	p.steps, p.arrived = p.steps[1:], 0
	done := p.next
	p.next = make(chan struct{})
	p.mu.Unlock()
	err := do(ctx)
	p.mu.Lock()
	if p.err == nil {
		p.err = err
	}
	close(done)
}

// finish makes the steps that nobody waited for, so that nothing stays broken.
func (p *phase) finish(ctx context.Context) error {
	for _, do := range p.steps {
		if err := do(ctx); err != nil {
			return err
		}
	}
	p.steps = nil
	return p.err
}
