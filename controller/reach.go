package controller

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// How long Kubernetes' own controllers take to catch up after the API server was away: watches begin
// again after pauses, and after an outage longer than renewDeadline the controllers are started anew
// and elect a leader.
const (
	catchUp       = 5 * time.Second
	electAnew     = 20 * time.Second
	renewDeadline = 10 * time.Second
)

// reach knows whether the Kubernetes API answers. While it does not, and until its controllers have
// caught up, a Service may still send requests to Pods that are Not Ready or being deleted. The zero
// value is ready; its methods may be called concurrently.
type reach struct {
	mu     sync.Mutex
	away   time.Time // since when nobody answers; zero = somebody does
	behind time.Time // until when endpoints may be out of date
}

// watch notes what becomes of requests.
func (r *reach) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err == nil {
			r.answered(time.Now())
		} else if !errors.Is(request.Context().Err(), context.Canceled) { // nobody has given it up
			r.failed(time.Now())
		}
		return answer, err
	})
}

func (r *reach) failed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away.IsZero() {
		r.away = now
	}
}

func (r *reach) answered(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away.IsZero() {
		return
	}
	takes := catchUp
	if now.Sub(r.away) >= renewDeadline {
		takes = electAnew
	}
	r.away, r.behind = time.Time{}, now.Add(takes)
}

// unsettled is how long endpoints may be out of date at least; 0 = they are not.
func (r *reach) unsettled() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away.IsZero() {
		return catchUp
	}
	return max(0, time.Until(r.behind))
}
