package probe

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// MaxTimeout is the maximum timeout of one request. A longer timeoutSeconds of a probe is reduced to MaxTimeout.
const MaxTimeout = 30 * time.Second

const (
	// concurrency is the maximum number of concurrent requests.
	concurrency = 256
	// baseConcurrency is the maximum number of concurrent requests to one base.
	baseConcurrency = 4
	// slowAfter is the minimum duration of a slow request.
	slowAfter = time.Second
)

// limits limits concurrent requests. Probes whose last request was slow may use at most half of the limit, so that
// modules that do not respond do not delay the probes of other modules.
type limits struct {
	all, slow *semaphore.Weighted
	users     int // number of workers that use these limits
}

func newLimits(n int) *limits {
	return &limits{all: semaphore.NewWeighted(int64(n)), slow: semaphore.NewWeighted(int64(max(n/2, 1)))}
}

// acquire blocks until a request is allowed or ctx is done. If it returns nil, call release with the same slow.
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
