package controller

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// How long the controllers of Kubernetes take to catch up after an outage of the API server. After an outage longer
// than renewDeadline they restart and elect a leader.
const (
	catchUp       = 5 * time.Second
	electAnew     = 20 * time.Second
	renewDeadline = 10 * time.Second
)

// reach tracks whether the Kubernetes API answers. During an outage, and until the controllers of Kubernetes have
// caught up, a Service may send requests to Pods that are Not Ready or deleted. The zero value is ready. Its methods
// may be called concurrently.
type reach struct {
	mu     sync.Mutex
	away   time.Time // since when nobody answers; zero = somebody does
	behind time.Time // until when endpoints may be out of date
}

func (r *reach) watch(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
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

// unsettled returns how long endpoints may be out of date; 0 if they are not.
func (r *reach) unsettled() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away.IsZero() {
		return catchUp
	}
	return max(0, time.Until(r.behind))
}
