package controller

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestEndpointLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r apiReachability
		refused := errors.New("refused")
		roundTrip := func(ctx context.Context, err error) {
			t.Helper()
			request, reqErr := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/", nil)
			if reqErr != nil {
				t.Fatal(reqErr)
			}
			answer, got := r.watch(promhttp.RoundTripperFunc(func(*http.Request) (*http.Response, error) {
				if err != nil {
					return nil, err
				}
				return &http.Response{Body: http.NoBody}, nil
			})).RoundTrip(request)
			if !errors.Is(got, err) {
				t.Fatalf("error %v, want %v", got, err)
			}
			if answer != nil {
				_ = answer.Body.Close()
			}
		}
		want := func(what string, d time.Duration) {
			t.Helper()
			if got := r.endpointLag(); got != d {
				t.Errorf("%s: %s, want %s", what, got, d)
			}
		}
		want("before the first request", 0)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		roundTrip(canceled, refused)
		want("after a canceled request", 0)
		roundTrip(t.Context(), refused)
		time.Sleep(4 * time.Second) // synctest clock
		roundTrip(t.Context(), refused)
		want("during the outage", 5*time.Second)
		roundTrip(t.Context(), nil)
		want("after an outage of 4 s", 5*time.Second)
		time.Sleep(3 * time.Second)
		want("3 s later", 2*time.Second)
		time.Sleep(2 * time.Second)
		want("5 s later", 0)
		roundTrip(t.Context(), refused)
		time.Sleep(10 * time.Second)
		roundTrip(t.Context(), nil)
		want("after an outage of 10 s", 20*time.Second)
	})
}
