package probe

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// MaxTimeout is the maximum duration of one request. A longer timeoutSeconds of a probe is reduced to it.
const MaxTimeout = 30 * time.Second

const (
	// concurrency is the maximum number of concurrent requests.
	concurrency = 256
	// baseConcurrency is the maximum number of concurrent requests to one base.
	baseConcurrency = 4
	// slowAfter is the duration from which a request counts as slow.
	slowAfter = time.Second
)

// limits bounds concurrent requests. Probes whose last request was slow use at most half of the slots, so that
// modules that do not answer do not delay the probes of other modules.
type limits struct {
	all, slow *semaphore.Weighted
	users     int // number of workers that use these limits
}

func newLimits(n int) *limits {
	return &limits{all: semaphore.NewWeighted(int64(n)), slow: semaphore.NewWeighted(int64(max(n/2, 1)))}
}

// acquire waits for a slot until ctx is done. After acquire has returned nil, the caller must call release with
// the same value of slow.
func (l *limits) acquire(ctx context.Context, slow bool) error {
	if !slow {
		return l.all.Acquire(ctx, 1)
	}
	if err := l.slow.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := l.all.Acquire(ctx, 1); err != nil {
		l.slow.Release(1)
		return err
	}
	return nil
}

func (l *limits) release(slow bool) {
	l.all.Release(1)
	if slow {
		l.slow.Release(1)
	}
}
