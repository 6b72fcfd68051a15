package main

import (
	"context"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

// lookEvery is how often the memory of a part is looked at: it moves with the
// collection of garbage, and one look sees any point of that.
const lookEvery = 250 * time.Millisecond

// memory follows how much one part uses.
type memory struct {
	stop func() // ends it, and waits

	mu   sync.Mutex
	sum  float64 // MB
	most float64
	n    int
}

// watchMemory begins when the part does, which may be later.
func (b *bench) watchMemory(ctx context.Context, part string) *memory {
	ctx, cancel := context.WithCancel(ctx)
	m := &memory{}
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		var p box.Process
		found := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !found {
				list, err := b.Processes(ctx) // there is no sandbox yet, or it has not come to this part
				if err != nil {
					continue
				}
				if p, err = box.Find(list, part); err != nil {
					continue
				}
				found = true
			}
			if rss, _, err := p.Usage(ctx); err == nil { // a process that is gone uses nothing
				m.add(float64(rss) / megabyte)
			}
		}
	})
	m.stop = func() {
		cancel()
		running.Wait()
	}
	return m
}

func (m *memory) add(rss float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum, m.most, m.n = m.sum+rss, max(m.most, rss), m.n+1
}

// since returns average and most, in MB, since it was last asked.
func (m *memory) since() (mean, most float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mean, most = m.sum/float64(max(m.n, 1)), m.most
	m.sum, m.most, m.n = 0, 0, 0
	return mean, most
}
