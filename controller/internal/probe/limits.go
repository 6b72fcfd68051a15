package probe

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// MaxTimeout is the maximum timeout of one probe request. If the timeoutSeconds of a probe is longer, MaxTimeout is
// used instead.
const MaxTimeout = 30 * time.Second

const (
	// concurrency is the maximum number of concurrent probe requests.
	concurrency = 256
	// baseConcurrency is the maximum number of concurrent probe requests to one base.
	baseConcurrency = 4
	// slowAfter is the minimum duration of a probe request that is treated as slow.
	slowAfter = time.Second
)

// limits limits the number of concurrent probe requests. Probes whose last request was slow may use at most half of
// the limit, so that unresponsive modules do not delay the probes of other modules.
type limits struct {
	allRequests, slowRequests *semaphore.Weighted
	users                     int // number of workers that use these limits
}

func newLimits(n int) *limits {
	return &limits{allRequests: semaphore.NewWeighted(int64(n)), slowRequests: semaphore.NewWeighted(int64(max(n/2,
		1)))}
}

// acquire blocks until a request is allowed or ctx is done. If it returns nil, the caller must call release with the
// same value of slow.
func (l *limits) acquire(ctx context.Context, slow bool) error {
	if !slow {
		return l.allRequests.Acquire(ctx, 1)
	}
	if err := l.slowRequests.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := l.allRequests.Acquire(ctx, 1); err != nil {
		l.slowRequests.Release(1)
		return err
	}
	return nil
}

func (l *limits) release(slow bool) {
	l.allRequests.Release(1)
	if slow {
		l.slowRequests.Release(1)
	}
}
