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

// world is a prober in a bubble, where time passes only while everything waits, and a base that
// answers as a test says.
type world struct {
	t      *testing.T
	prober *Prober
	began  time.Time

	mu     sync.Mutex
	answer func(*http.Request) int // 0 = refuses, -1 = does not answer
	asked  []string                // second: path
	heard  []string
	busy   int
	most   int // busy at once
}

// RoundTrip implements http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.asked = append(w.asked, fmt.Sprintf("%v: %s", time.Since(w.began).Round(time.Millisecond), r.URL))
	status := w.answer(r)
	w.busy++
	w.most = max(w.most, w.busy)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.busy--
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

func inBubble(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, began: time.Now(), answer: func(*http.Request) int { return 200 }}
		w.prober = New(Options{Transport: w, Changed: func(r Result) {
			w.mu.Lock()
			defer w.mu.Unlock()
			line := fmt.Sprintf("%v: %s/%s %s %v", time.Since(w.began).Round(time.Millisecond), r.Pod, r.Container,
				r.Kind, r.Healthy)
			if r.Message != "" {
				line += ", " + facts(r.Message)
			}
			w.heard = append(w.heard, line)
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

func (w *world) answers(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = func(*http.Request) int { return status }
}

// pass lets time pass, and is a moment past the full second afterwards.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// facts returns the status, the address and the error of net/http in a message.
func facts(message string) string { return strings.Join(factsPattern.FindAllString(message, -1), " ") }

var factsPattern = regexp.MustCompile(`\b[1-5]\d\d\b|http://[^" ]+|"/[^"]*"|` +
	`connection refused|context deadline exceeded|10 redirects|URL escape`)

// expect compares what was heard since the last call.
func (w *world) expect(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.heard); diff != "" {
		w.t.Errorf("results %s (-want +got):\n%s", when, diff)
	}
	w.heard = nil
}

// expectAsked compares the requests since the last call.
func (w *world) expectAsked(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.asked); diff != "" {
		w.t.Errorf("requests %s (-want +got):\n%s", when, diff)
	}
	w.asked = nil
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

func (w *world) target(change ...func(*Target)) Target {
	t := Target{Pod: "p", Container: "biz1", Started: w.began, Address: "10.0.0.1:8080"}
	for _, f := range change {
		f(&t)
	}
	return t
}

func (w *world) expectReady(when string, want bool, why string) {
	w.t.Helper()
	ready, got := w.prober.Ready("p", "biz1")
	if ready != want || facts(got) != why || (got == "") != want {
		w.t.Errorf("%s: ready is %v, %q; want %v, %q", when, ready, got, want, why)
	}
}

func TestReadiness(t *testing.T) {
	inBubble(t, func(w *world) {
		w.expectReady("nobody asks", true, "")
		w.prober.Set(w.target(func(t *Target) {
			t.Readiness = httpGet("/ok", func(p *corev1.Probe) { p.InitialDelaySeconds, p.SuccessThreshold = 5, 2 })
		}))
		w.expectReady("before the first probe", false, "")
		w.pass(4900 * time.Millisecond)
		w.expectAsked("within the initial delay")
		w.pass(200 * time.Millisecond)
		w.expectAsked("after it", "5s: http://10.0.0.1:8080/ok")
		w.expectReady("after one success of two", false, "")
		w.expect("after one success of two")
		w.pass(10 * time.Second)
		w.expect("after two", "15s: p/biz1 readiness true")
		w.expectReady("after two", true, "")

		w.answers(503)
		w.pass(20 * time.Second)
		w.expect("after two failures of three")
		w.answers(200)
		w.pass(10 * time.Second)
		w.answers(503)
		w.pass(20 * time.Second)
		w.expect("after two more: they count in a row")
		w.pass(10 * time.Second)
		const why = "503 http://10.0.0.1:8080/ok"
		w.expect("after three", "1m15s: p/biz1 readiness false, "+why)
		w.expectReady("after three", false, why)
		w.pass(time.Minute)
		w.expect("as long as it stays so")
		w.answers(200)
		w.pass(20 * time.Second)
		w.expect("when it is well again", "2m35s: p/biz1 readiness true")
	})
}

func TestAnswers(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 204: "", 399: "", 199: "199 http://10.0.0.1:8080/", 400: "400 http://10.0.0.1:8080/",
		0:  "http://10.0.0.1:8080/ connection refused",
		-1: "http://10.0.0.1:8080/ context deadline exceeded",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.answers(status)
				w.prober.Set(w.target(
					func(t *Target) { t.Readiness = httpGet("", func(p *corev1.Probe) { p.FailureThreshold = 1 }) }))
				w.pass(2 * time.Second)
				w.expectReady("then", want == "", want)
			})
		})
	}
}

// A module that failed its liveness probe is left alone until it was started anew.
func TestLiveness(t *testing.T) {
	inBubble(t, func(w *world) {
		liveness := func(t *Target) { t.Liveness = httpGet("/live") }
		w.prober.Set(w.target(liveness))
		w.pass(time.Second)
		w.expect("while it lives") // as it is taken to from the start
		w.answers(0)
		w.pass(30 * time.Second)
		w.expect("after three failures", `30s: p/biz1 liveness false, http://10.0.0.1:8080/live connection refused`)
		w.expectAsked("so far", "0s: http://10.0.0.1:8080/live", "10s: http://10.0.0.1:8080/live",
			"20s: http://10.0.0.1:8080/live", "30s: http://10.0.0.1:8080/live")
		w.pass(time.Minute)
		w.prober.Set(w.target(liveness))
		w.pass(time.Minute)
		w.expectAsked("until it is started anew")
		w.expectReady("whatever liveness says", true, "")

		again := time.Now()
		w.prober.Set(w.target(liveness, func(t *Target) { t.Started = again }))
		w.pass(30 * time.Second)
		w.expect("after three more", `2m51s: p/biz1 liveness false, http://10.0.0.1:8080/live connection refused`)
	})
}

// What was Ready before this controller began stays so until a probe says otherwise, and the probes
// of many do not come at once.
func TestRestartOfTheController(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answers(503)
		for i := range 50 {
			w.prober.Set(w.target(func(t *Target) {
				t.Pod, t.WasReady, t.Started = types.UID(fmt.Sprint(i)), true, w.began.Add(-time.Hour)
				t.Readiness = httpGet("/")
			}))
		}
		synctest.Wait()
		if ready, why := w.prober.Ready("7", "biz1"); !ready {
			t.Errorf("it is not ready any more: %s", why)
		}
		w.mu.Lock()
		if len(w.asked) > 10 {
			t.Errorf("%d of 50 were asked at once", len(w.asked))
		}
		w.mu.Unlock()
		w.pass(31 * time.Second)
		if ready, _ := w.prober.Ready("7", "biz1"); ready {
			t.Error("it is ready after three failures")
		}
	})
}

// The number of concurrent requests is limited in total and for each base.
func TestConcurrency(t *testing.T) {
	for bases, most := range map[int]int{20: 8, 1: baseConcurrency} {
		inBubble(t, func(w *world) {
			w.answers(-1)
			for i := range 20 {
				w.prober.Set(w.target(func(t *Target) {
					t.Pod, t.Base, t.Readiness = types.UID(fmt.Sprint(i)), fmt.Sprint(i%bases), httpGet("/")
				}))
			}
			w.pass(9 * time.Second)
			if w.most != most || len(w.asked) != 20 {
				t.Errorf("%d bases: %d requests, %d concurrently; want 20, %d", bases, len(w.asked), w.most, most)
			}
		})
	}
}

// An answer that takes longer than a period costs the probes in between, and no more.
func TestSlowAnswers(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answers(-1)
		w.prober.Set(w.target(func(t *Target) {
			t.Readiness = httpGet("/", func(p *corev1.Probe) { p.PeriodSeconds, p.TimeoutSeconds = 2, 3 })
		}))
		w.pass(9 * time.Second)
		w.expectAsked("in nine seconds", "0s: http://10.0.0.1:8080/", "4s: http://10.0.0.1:8080/",
			"8s: http://10.0.0.1:8080/")
	})
}

func TestSetAndForget(t *testing.T) {
	inBubble(t, func(w *world) {
		probed := func(t *Target) { t.Readiness, t.Liveness = httpGet("/r"), httpGet("/l") }
		w.prober.Set(w.target(probed))
		w.pass(time.Second)
		w.expect("at first", "0s: p/biz1 readiness true")
		w.prober.Set(w.target(probed)) // nothing new: not asked again
		w.pass(time.Second)
		w.prober.Set(w.target(probed, func(t *Target) { t.Address = "10.0.0.2:80" }))
		w.expectReady("at another address", true, "") // as before
		w.pass(time.Second)
		w.mu.Lock()
		asked := map[string]int{}
		for _, a := range w.asked {
			asked[a]++
		}
		w.asked = nil
		w.mu.Unlock()
		want := map[string]int{
			"0s: http://10.0.0.1:8080/r": 1, "0s: http://10.0.0.1:8080/l": 1,
			"2s: http://10.0.0.2:80/r": 1, "2s: http://10.0.0.2:80/l": 1,
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		w.prober.Set(w.target(func(t *Target) { t.Liveness = httpGet("/l"); t.Address = "10.0.0.2:80" }))
		w.expectReady("without a readiness probe", true, "")
		w.pass(10 * time.Second)
		w.expectAsked("without it", "12s: http://10.0.0.2:80/l")
		tcp := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
		w.prober.Set(w.target(func(t *Target) { t.Liveness, t.Readiness = tcp, tcp }))
		w.pass(time.Minute)
		w.expectAsked("of another type")

		// An answer that comes after the Pod has gone is nobody's.
		w.answers(-1)
		w.prober.Set(w.target(probed, func(t *Target) { t.Readiness.FailureThreshold = 1 }))
		synctest.Wait()
		w.prober.Forget("p", "biz1")
		w.pass(time.Minute)
		w.expect("after it was forgotten")
		if n := len(w.prober.workers) + len(w.prober.bases); n != 0 {
			t.Errorf("%d workers and bases are left", n)
		}
	})
}
