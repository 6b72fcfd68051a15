package traffic

import (
	"context"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// referenceInterval is the time between two reference requests.
const referenceInterval = 200 * time.Millisecond

// measureDelays sends reference requests while streams run, until ctx is done: a byte that a goroutine sends back through
// pipes. It does nothing else, so the time until it is back is a delay of the machine. The requests of streams have the same
// delay, and more of it, since several goroutines and processes take part in each of them.
func (g *Generator) measureDelays(ctx context.Context) error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // ends the goroutine
	back, echo, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return err
	}
	defer func() { _ = back.Close() }()
	go func() {
		_, _ = io.Copy(echo, in)
		_, _ = in.Close(), echo.Close()
	}()
	wait.UntilWithContext(ctx, func(context.Context) {
		running := g.running()
		if len(running) == 0 {
			return
		}
		start := time.Now()
		for _, s := range running {
			s.ledger.measure(start)
		}
		if _, err := out.Write([]byte{0}); err == nil {
			_, _ = back.Read(make([]byte, 1))
		}
		for _, s := range running {
			s.ledger.measured(start, time.Now())
		}
	}, referenceInterval)
	return nil
}

// running returns the streams of all runs that have not ended.
func (g *Generator) running() (list []*stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, streams := range g.groups {
		for _, s := range streams {
			select {
			case <-s.done:
			default:
				list = append(list, s)
			}
		}
	}
	return list
}

// measure records that a reference request was sent.
func (l *ledger) measure(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reference = sent
}

// measured records that a reference request is back.
func (l *ledger) measured(sent, back time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.reference = max(l.late, back.Sub(sent)), time.Time{}
}

// delay returns the longest delay so far. It includes the reference request that is not back yet. l.mu is held.
func (l *ledger) delay() time.Duration {
	if l.reference.IsZero() {
		return l.late
	}
	return max(l.late, time.Since(l.reference))
}
