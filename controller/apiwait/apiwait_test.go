package apiwait

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

type api func(*http.Request) (*http.Response, error)

func (f api) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWatchesAreRetriedUntilConnected(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for name, c := range map[string]struct {
		method, url string
		err         error         // error that the server returns during the outage
		outage      time.Duration // how long attempts fail with err
		timeout     time.Duration // request context timeout
		want        error
		took        time.Duration
	}{
		"a watch is retried": {http.MethodGet, "/api/v1/pods?watch=true", refused, 5 * time.Minute,
			time.Hour, nil, 5 * time.Minute},
		"until its context is done": {http.MethodGet, "/api/v1/pods?watch=true", refused, 5 * time.Minute,
			1500 * time.Millisecond, refused, 1500 * time.Millisecond},
		"a list is not retried": {http.MethodGet, "/api/v1/pods", refused, time.Minute, time.Hour, refused, 0},
		"a write is not retried": {http.MethodPost, "/api/v1/pods?watch=true", refused, time.Minute, time.Hour,
			refused, 0},
		"a lost connection is not retried": {http.MethodGet, "/api/v1/pods?watch=true", reset, time.Minute, time.Hour,
			reset, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, c.method, "https://api.example"+c.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := RetryWatches(api(func(*http.Request) (*http.Response, error) {
					if time.Since(began) < c.outage {
						return nil, c.err
					}
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				})).RoundTrip(r)
				if answer != nil {
					_ = answer.Body.Close()
				}
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("error %v after %s, want %v after %s", err, took, c.want, c.took)
				}
			})
		})
	}
}

// TestForbiddenWatchesAreRetriedIfResumed checks that a resumed watch is retried if the API server forbids it,
// because an API server that has just started may reject requests that it allows later.
func TestForbiddenWatchesAreRetriedIfResumed(t *testing.T) {
	for name, c := range map[string]struct {
		url      string
		during   time.Duration
		want     int
		attempts int
	}{
		"resumed watch": {"/api/v1/pods?watch=true&resourceVersion=7", 5 * time.Second,
			http.StatusOK, 6},
		"resumed watch that stays forbidden": {"/api/v1/pods?watch=true&resourceVersion=7", time.Hour,
			http.StatusForbidden, 16},
		"new watch": {"/api/v1/pods?watch=true&resourceVersion=0", time.Hour,
			http.StatusForbidden, 1},
		"new watch with a list": {"/api/v1/pods?watch=true&sendInitialEvents=true", time.Hour,
			http.StatusForbidden, 1},
		"list": {"/api/v1/pods?resourceVersion=7", time.Hour, http.StatusForbidden, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, attempts := time.Now(), 0
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example"+c.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := RetryWatches(api(func(*http.Request) (*http.Response, error) {
					attempts++
					status := http.StatusForbidden
					if time.Since(began) >= c.during {
						status = http.StatusOK
					}
					return &http.Response{StatusCode: status, Body: http.NoBody}, nil
				})).RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				if answer.StatusCode != c.want || attempts != c.attempts {
					t.Errorf("status %d after %d attempts, want %d after %d", answer.StatusCode, attempts, c.want,
						c.attempts)
				}
			})
		})
	}
}
