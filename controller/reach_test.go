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

func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		refused := errors.New("refused")
		ask := func(ctx context.Context, err error) {
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
			if got := r.unsettled(); got != d {
				t.Errorf("%s: %s, want %s", what, got, d)
			}
		}
		want("at the beginning", 0)
		givenUp, cancel := context.WithCancel(t.Context())
		cancel()
		ask(givenUp, refused)
		want("a request that was given up", 0)
		ask(t.Context(), refused)
		time.Sleep(4 * time.Second) // on the test's own clock
		ask(t.Context(), refused)
		want("while nobody answers", 5*time.Second)
		ask(t.Context(), nil)
		want("after 4 s", 5*time.Second)
		time.Sleep(3 * time.Second)
		want("3 s later", 2*time.Second)
		time.Sleep(2 * time.Second)
		want("5 s later", 0)
		ask(t.Context(), refused)
		time.Sleep(10 * time.Second)
		ask(t.Context(), nil)
		want("after 10 s", 20*time.Second)
	})
}
