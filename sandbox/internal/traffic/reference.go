package traffic

import (
	"context"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// referenceInterval is the interval between reference requests.
const referenceInterval = 200 * time.Millisecond

// measureDelays sends reference requests while streams are running. It blocks until ctx ends. A reference request is
// one byte that another goroutine returns through pipes. Because no other work is involved, its duration is a delay
// that the machine causes. Requests of streams are delayed at least as long, because they involve more goroutines and
// processes.
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
			s.log.referenceSent(start)
		}
		if _, err := out.Write([]byte{0}); err == nil {
			_, _ = back.Read(make([]byte, 1))
		}
		for _, s := range running {
			s.log.referenceDone(start, time.Now())
		}
	}, referenceInterval)
	return nil
}

// running returns the streams of all groups that are still running.
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

// referenceSent records that a reference request was sent.
func (l *requestLog) referenceSent(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reference = sent
}

// referenceDone records that the reference request was answered.
func (l *requestLog) referenceDone(sent, back time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.reference = max(l.late, back.Sub(sent)), time.Time{}
}

// delay returns the longest delay so far, including the delay of the pending reference request. The caller must hold
// l.mu.
func (l *requestLog) delay() time.Duration {
	if l.reference.IsZero() {
		return l.late
	}
	return max(l.late, time.Since(l.reference))
}
