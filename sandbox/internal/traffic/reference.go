package traffic

import (
	"context"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// referenceInterval is the time between two reference requests.
	referenceInterval = 200 * time.Millisecond
	// referenceTimeout limits a reference request. It is much longer than the delay that makes a run inconclusive.
	referenceTimeout = 10 * time.Second
)

// measureDelays sends requests to a handler of this process while streams run, until ctx ends. The handler does nothing, so
// the time until its answer is a delay of the machine, which requests of the streams have as well.
func (g *Generator) measureDelays(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: referenceTimeout, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	defer func() { _ = server.Close() }()
	client := http.Client{Timeout: referenceTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dialReal(ctx, addr) },
	}}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		running := g.running()
		if len(running) == 0 {
			return
		}
		start := time.Now()
		for _, s := range running {
			s.ledger.measure(start)
		}
		if request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String(), nil); err == nil {
			if answer, err := client.Do(request); err == nil {
				_ = answer.Body.Close()
			}
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

// measured records that a reference request was answered.
func (l *ledger) measured(sent, answered time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.reference = max(l.late, answered.Sub(sent)), time.Time{}
}

// delay returns the longest delay so far. It includes the reference request that has no answer yet. l.mu is held.
func (l *ledger) delay() time.Duration {
	if l.reference.IsZero() {
		return l.late
	}
	return max(l.late, time.Since(l.reference))
}
