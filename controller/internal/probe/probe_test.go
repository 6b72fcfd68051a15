package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fixture is a Prober with a fake base whose response the test sets. It runs in a synctest bubble.
type fixture struct {
	t      *testing.T
	prober *Prober
	began  time.Time

	mu        sync.Mutex
	answer    func(*http.Request) int // HTTP status of the response; 0: connection refused, -1: no response
	requests  []string                // time and URL of each request
	results   []string
	active    int
	maxActive int // highest value of active so far
}

// RoundTrip implements http.RoundTripper.
func (w *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.requests = append(w.requests, fmt.Sprintf("%v: %s", time.Since(w.began).Round(time.Millisecond), r.URL))
	status := w.answer(r)
	w.active++
	w.maxActive = max(w.maxActive, w.active)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.active--
		w.mu.Unlock()
	}()
	switch status {
	case 0:
		return nil, errors.New("connection refused")
	case -1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("body")), Header: http.Header{},
		Request: r}, nil
}

func runTest(t *testing.T, test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, began: time.Now(), answer: func(*http.Request) int { return 200 }}
		w.prober = New(Options{Transport: w, Changed: func(r Result) {
			w.mu.Lock()
			defer w.mu.Unlock()
			line := fmt.Sprintf("%v: %s/%s %s %v", time.Since(w.began).Round(time.Millisecond), r.Pod, r.Container,
				r.Kind, r.Healthy)
			if r.Message != "" {
				line += ", " + comparableText(r.Message)
			}
			w.results = append(w.results, line)
		}})
		w.prober.limits = newLimits(8)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.prober.Start(ctx) }()
		test(w)
		cancel()
		<-ended
	})
}

func (w *fixture) respondWith(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = func(*http.Request) int { return status }
}

// advance advances the fake time by d, and waits until all goroutines are blocked.
func (w *fixture) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// comparableText returns the parts of a message to compare: the status, the address and the error of net/http.
func comparableText(message string) string {
	return strings.Join(factsPattern.FindAllString(message, -1), " ")
}

var factsPattern = regexp.MustCompile(`\b[1-5]\d\d\b|http://[^" ]+|"/[^"]*"|` +
	`connection refused|context deadline exceeded|10 redirects|URL escape`)

// wantResults compares the results since the previous call with the expected ones.
func (w *fixture) wantResults(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.results); diff != "" {
		w.t.Errorf("results %s (-want +got):\n%s", when, diff)
	}
	w.results = nil
}

// wantRequests compares the requests since the previous call with the expected ones.
func (w *fixture) wantRequests(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.requests); diff != "" {
		w.t.Errorf("requests %s (-want +got):\n%s", when, diff)
	}
	w.requests = nil
}

func httpGet(path string, change ...func(*corev1.Probe)) *corev1.Probe {
	p := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func (w *fixture) target(change ...func(*Target)) Target {
	t := Target{Pod: "p", Container: "biz1", Started: w.began, Address: "10.0.0.1:8080"}
	for _, f := range change {
		f(&t)
	}
	return t
}

func (w *fixture) wantReady(when string, want bool, why string) {
	w.t.Helper()
	ready, got := w.prober.Ready("p", "biz1")
	if ready != want || comparableText(got) != why || (got == "") != want {
		w.t.Errorf("%s: ready is %v, %q; want %v, %q", when, ready, got, want, why)
	}
}

func TestReadiness(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.wantReady("without a probe", true, "")
		w.prober.Set(w.target(func(t *Target) {
			t.Readiness = httpGet("/ok", func(p *corev1.Probe) { p.InitialDelaySeconds, p.SuccessThreshold = 5, 2 })
		}))
		w.wantReady("before the first probe", false, "")
		w.advance(4900 * time.Millisecond)
		w.wantRequests("during the initial delay")
		w.advance(200 * time.Millisecond)
		w.wantRequests("after the initial delay", "5s: http://10.0.0.1:8080/ok")
		w.wantReady("after 1 of 2 successes", false, "")
		w.wantResults("after 1 of 2 successes")
		w.advance(10 * time.Second)
		w.wantResults("after 2 successes", "15s: p/biz1 readiness true")
		w.wantReady("after 2 successes", true, "")

		w.respondWith(503)
		w.advance(20 * time.Second)
		w.wantResults("after 2 of 3 failures")
		w.respondWith(200)
		w.advance(10 * time.Second)
		w.respondWith(503)
		w.advance(20 * time.Second)
		w.wantResults("after 2 more failures that are not consecutive")
		w.advance(10 * time.Second)
		const reason = "503 http://10.0.0.1:8080/ok"
		w.wantResults("after 3 failures", "1m15s: p/biz1 readiness false, "+reason)
		w.wantReady("after 3 failures", false, reason)
		w.advance(time.Minute)
		w.wantResults("while the probe still fails")
		w.respondWith(200)
		w.advance(20 * time.Second)
		w.wantResults("when the probe succeeds again", "2m35s: p/biz1 readiness true")
	})
}

func TestResponses(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 204: "", 399: "", 199: "199 http://10.0.0.1:8080/", 400: "400 http://10.0.0.1:8080/",
		0:  "http://10.0.0.1:8080/ connection refused",
		-1: "http://10.0.0.1:8080/ context deadline exceeded",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			runTest(t, func(w *fixture) {
				w.respondWith(status)
				w.prober.Set(w.target(
					func(t *Target) { t.Readiness = httpGet("", func(p *corev1.Probe) { p.FailureThreshold = 1 }) }))
				w.advance(2 * time.Second)
				w.wantReady("after the probe", want == "", want)
			})
		})
	}
}

// TestLiveness checks that a module whose liveness probe has failed is not probed again until it has restarted.
func TestLiveness(t *testing.T) {
	runTest(t, func(w *fixture) {
		liveness := func(t *Target) { t.Liveness = httpGet("/live") }
		w.prober.Set(w.target(liveness))
		w.advance(time.Second)
		w.wantResults("while the probe succeeds") // the initial result is healthy
		w.respondWith(0)
		w.advance(30 * time.Second)
		w.wantResults("after 3 failures", `30s: p/biz1 liveness false, http://10.0.0.1:8080/live connection refused`)
		w.wantRequests("until then", "0s: http://10.0.0.1:8080/live", "10s: http://10.0.0.1:8080/live",
			"20s: http://10.0.0.1:8080/live", "30s: http://10.0.0.1:8080/live")
		w.advance(time.Minute)
		w.prober.Set(w.target(liveness))
		w.advance(time.Minute)
		w.wantRequests("before the restart")
		w.wantReady("with a failed liveness probe", true, "")

		again := time.Now()
		w.prober.Set(w.target(liveness, func(t *Target) { t.Started = again }))
		w.advance(30 * time.Second)
		w.wantResults("after 3 more failures",
			`2m51s: p/biz1 liveness false, http://10.0.0.1:8080/live connection refused`)
	})
}

// TestControllerRestart checks that modules that were Ready before the controller started stay ready until a probe
// fails, and that their first probes are spread over a period.
func TestControllerRestart(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.respondWith(503)
		for i := range 50 {
			w.prober.Set(w.target(func(t *Target) {
				t.Pod, t.WasReady, t.Started = types.UID(fmt.Sprint(i)), true, w.began.Add(-time.Hour)
				t.Readiness = httpGet("/")
			}))
		}
		synctest.Wait()
		if ready, why := w.prober.Ready("7", "biz1"); !ready {
			t.Errorf("not ready after the restart: %s", why)
		}
		w.mu.Lock()
		if len(w.requests) > 10 {
			t.Errorf("%d of 50 modules were probed immediately, want at most 10", len(w.requests))
		}
		w.mu.Unlock()
		w.advance(31 * time.Second)
		if ready, _ := w.prober.Ready("7", "biz1"); ready {
			t.Error("still ready after 3 failures")
		}
	})
}

// TestConcurrency checks that the number of concurrent probe requests is limited, both in total and for each base.
func TestConcurrency(t *testing.T) {
	for bases, most := range map[int]int{20: 8, 1: baseConcurrency} {
		runTest(t, func(w *fixture) {
			w.respondWith(-1)
			for i := range 20 {
				w.prober.Set(w.target(func(t *Target) {
					t.Pod, t.Base, t.Readiness = types.UID(fmt.Sprint(i)), fmt.Sprint(i%bases), httpGet("/")
				}))
			}
			w.advance(9 * time.Second)
			if w.maxActive != most || len(w.requests) != 20 {
				t.Errorf("%d bases: %d requests, at most %d concurrently; want 20 and %d", bases, len(w.requests),
					w.maxActive, most)
			}
		})
	}
}

// TestSlowResponses checks that if a response takes longer than a period, only the probes that were due in the
// meantime are skipped.
func TestSlowResponses(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.respondWith(-1)
		w.prober.Set(w.target(func(t *Target) {
			t.Readiness = httpGet("/", func(p *corev1.Probe) { p.PeriodSeconds, p.TimeoutSeconds = 2, 3 })
		}))
		w.advance(9 * time.Second)
		w.wantRequests("in 9 s", "0s: http://10.0.0.1:8080/", "4s: http://10.0.0.1:8080/",
			"8s: http://10.0.0.1:8080/")
	})
}

func TestSetAndForget(t *testing.T) {
	runTest(t, func(w *fixture) {
		probed := func(t *Target) { t.Readiness, t.Liveness = httpGet("/r"), httpGet("/l") }
		w.prober.Set(w.target(probed))
		w.advance(time.Second)
		w.wantResults("after the first probes", "0s: p/biz1 readiness true")
		w.prober.Set(w.target(probed)) // without a change: no new probe
		w.advance(time.Second)
		w.prober.Set(w.target(probed, func(t *Target) { t.Address = "10.0.0.2:80" }))
		w.wantReady("at another address", true, "") // the result is kept
		w.advance(time.Second)
		w.mu.Lock()
		requests := map[string]int{}
		for _, a := range w.requests {
			requests[a]++
		}
		w.requests = nil
		w.mu.Unlock()
		want := map[string]int{
			"0s: http://10.0.0.1:8080/r": 1, "0s: http://10.0.0.1:8080/l": 1,
			"2s: http://10.0.0.2:80/r": 1, "2s: http://10.0.0.2:80/l": 1,
		}
		if diff := cmp.Diff(want, requests); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		w.prober.Set(w.target(func(t *Target) { t.Liveness = httpGet("/l"); t.Address = "10.0.0.2:80" }))
		w.wantReady("without a readiness probe", true, "")
		w.advance(10 * time.Second)
		w.wantRequests("without a readiness probe", "12s: http://10.0.0.2:80/l")
		tcp := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
		w.prober.Set(w.target(func(t *Target) { t.Liveness, t.Readiness = tcp, tcp }))
		w.advance(time.Minute)
		w.wantRequests("with probes of another type")

		// A response after Forget is ignored.
		w.respondWith(-1)
		w.prober.Set(w.target(probed, func(t *Target) { t.Readiness.FailureThreshold = 1 }))
		synctest.Wait()
		w.prober.Forget("p", "biz1")
		w.advance(time.Minute)
		w.wantResults("after Forget")
		if n := len(w.prober.workers) + len(w.prober.bases); n != 0 {
			t.Errorf("%d workers and bases remain, want 0", n)
		}
	})
}
