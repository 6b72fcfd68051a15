package controller

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// catchUpTime is how long Kubernetes controllers need to process their backlog after an API server outage. After an
// outage of at least renewDeadline, they restart and elect a leader, which takes electionTime in total.
const (
	catchUpTime   = 5 * time.Second
	electionTime  = 20 * time.Second
	renewDeadline = 10 * time.Second
)

// apiReachability tracks whether the Kubernetes API answers. During an outage, and until the Kubernetes controllers
// have processed their backlog, a Service may send requests to Pods that are Not Ready or deleted. The zero value is
// the state before the first outage. The methods are safe for concurrent use.
type apiReachability struct {
	mu          sync.Mutex
	outageSince time.Time // start of the current outage; zero if there is none
	staleUntil  time.Time // time after which endpoints are current again
}

func (r *apiReachability) watch(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err == nil {
			r.answered(time.Now())
		} else if !errors.Is(request.Context().Err(), context.Canceled) {
			r.failed(time.Now())
		}
		return answer, err
	})
}

func (r *apiReachability) failed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outageSince.IsZero() {
		r.outageSince = now
	}
}

func (r *apiReachability) answered(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outageSince.IsZero() {
		return
	}
	takes := catchUpTime
	if now.Sub(r.outageSince) >= renewDeadline {
		takes = electionTime
	}
	r.outageSince, r.staleUntil = time.Time{}, now.Add(takes)
}

// endpointLag returns how much longer the endpoints of Services may be outdated; 0 means that they are current.
func (r *apiReachability) endpointLag() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.outageSince.IsZero() {
		return catchUpTime
	}
	return max(0, time.Until(r.staleUntil))
}
