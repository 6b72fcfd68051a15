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

func TestWatches(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for name, c := range map[string]struct {
		method, url string
		err         error         // of the first attempts
		away        time.Duration // for how long there is this error
		patience    time.Duration // of the request
		want        error
		took        time.Duration
	}{
		"a watch waits": {http.MethodGet, "/api/v1/pods?watch=true", refused, 5 * time.Minute,
			time.Hour, nil, 5 * time.Minute},
		"as long as somebody wants it": {http.MethodGet, "/api/v1/pods?watch=true", refused, 5 * time.Minute,
			1500 * time.Millisecond, refused, 1500 * time.Millisecond},
		"a list does not": {http.MethodGet, "/api/v1/pods", refused, time.Minute, time.Hour, refused, 0},
		"a write does not": {http.MethodPost, "/api/v1/pods?watch=true", refused, time.Minute, time.Hour,
			refused, 0},
		"one that was connected is not": {http.MethodGet, "/api/v1/pods?watch=true", reset, time.Minute, time.Hour,
			reset, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, c.method, "https://api.example"+c.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := RetryWatches(api(func(*http.Request) (*http.Response, error) {
					if time.Since(began) < c.away {
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

// An API server that has just started forbids what it will allow.
func TestWatchesThatAreForbidden(t *testing.T) {
	for name, c := range map[string]struct {
		url      string
		during   time.Duration
		want     int
		attempts int
	}{
		"one that goes on waits": {"/api/v1/pods?watch=true&resourceVersion=7", 5 * time.Second,
			http.StatusOK, 6},
		"one that is forbidden for good": {"/api/v1/pods?watch=true&resourceVersion=7", time.Hour,
			http.StatusForbidden, 16},
		"one that begins does not": {"/api/v1/pods?watch=true&resourceVersion=0", time.Hour,
			http.StatusForbidden, 1},
		"one that begins with a list, too": {"/api/v1/pods?watch=true&sendInitialEvents=true", time.Hour,
			http.StatusForbidden, 1},
		"neither does another request for it": {"/api/v1/pods?resourceVersion=7", time.Hour, http.StatusForbidden, 1},
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
