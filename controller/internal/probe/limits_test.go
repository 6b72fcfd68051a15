package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// waitLimit is the maximum time for a condition of a test on a busy machine.
const waitLimit = 2 * time.Minute

func hanging(p *corev1.Probe) { p.TimeoutSeconds, p.PeriodSeconds, p.FailureThreshold = 100_000, 1, 1 }

// A base that accepts connections and does not answer delays neither the probes of other bases nor the end of its own
// probes.
func TestABaseThatDoesNotAnswerDelaysNoOtherProbes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, closed := make(chan struct{}, 100), make(chan struct{}, 100)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			connections.Go(func() {
				defer func() { _ = c.Close() }()
				for buffer := make([]byte, 1024); err == nil; {
					_, err = c.Read(buffer)
				}
				closed <- struct{}{}
			})
		}
	})
	defer connections.Wait()
	defer func() { _ = listener.Close() }()
	answered := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered <- struct{}{} }))
	defer server.Close()
	wait := func(what string, n int, c <-chan struct{}) {
		t.Helper()
		limit := time.After(waitLimit)
		for i := range n {
			select {
			case <-c:
			case <-limit:
				t.Fatalf("%s: %d of %d within %s", what, i, n, waitLimit)
			}
		}
	}

	p := New(Options{Concurrency: 8, Changed: func(Result) {}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Start(ctx) }()
	for i := range 20 {
		p.Set(Target{
			Pod: types.UID(fmt.Sprint(i)), Container: "biz1", Base: "hangs", Address: listener.Addr().String(), Started: time.Now(),
			Readiness: httpGet("/", hanging),
		})
	}
	wait("connections to the base that does not answer", baseConcurrency, accepted)
	p.Set(Target{
		Pod: "good", Container: "biz1", Base: "answers", Address: server.Listener.Addr().String(), Started: time.Now(),
		Readiness: httpGet("/", func(p *corev1.Probe) { p.PeriodSeconds = 1 }),
	})
	wait("probes of the base that answers", 3, answered)
	if n := len(accepted); n > 0 {
		t.Errorf("the base that does not answer has %d concurrent requests; want %d", baseConcurrency+n, baseConcurrency)
	}
	for i := range 20 {
		p.Forget(types.UID(fmt.Sprint(i)), "biz1")
	}
	wait("connections closed after Forget", baseConcurrency, closed)
	wait("probes after Forget", 1, answered)
	cancel()
	select {
	case <-ended:
	case <-time.After(waitLimit):
		t.Error("Start does not return")
	}
	if n := len(p.workers) + len(p.bases); n != 2 {
		t.Errorf("%d workers and bases remain; want those of the base that answers: %v, %v", n, p.workers, p.bases)
	}
}

// Slow probes use at most half of the slots, so that other probes are sent when they are due. This holds for
// probes of the same base, and if many bases do not answer.
func TestSlowProbesUseHalfOfTheSlots(t *testing.T) {
	for bases, count := range map[int]int{1: 20, 10: 2} {
		t.Run(fmt.Sprint(bases), func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.answer = func(r *http.Request) int {
					if r.URL.Path == "/good" {
						return 200
					}
					return -1
				}
				for i := range bases * count {
					w.prober.Set(w.target(func(t *Target) {
						t.Pod, t.Base, t.Readiness = types.UID(fmt.Sprint("hangs", i)), fmt.Sprint(i%bases), httpGet("/", hanging)
					}))
				}
				w.pass(10 * MaxTimeout) // each of them was probed once
				w.prober.Set(w.target(func(t *Target) { t.Base, t.Readiness = "0", httpGet("/good") }))
				synctest.Wait()
				w.expectReady("immediately", true, "")
				good := 0
				w.mu.Lock()
				w.asked = nil
				w.mu.Unlock()
				w.pass(time.Minute)
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, a := range w.asked {
					if len(a) > 5 && a[len(a)-5:] == "/good" {
						good++
					}
				}
				if good != 6 {
					t.Errorf("%d probes in a minute with a period of 10 s: %v", good, w.asked)
				}
			})
		})
	}
}

// A timeout is reduced to MaxTimeout.
func TestMaxTimeout(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answers(-1)
		w.prober.Set(w.target(func(t *Target) { t.Readiness = httpGet("/", hanging) }))
		w.pass(MaxTimeout)
		w.expectReady("after the maximum", false, `readiness probe failed: Get "http://10.0.0.1:8080/": context deadline exceeded`)
	})
}

// A connection is closed when its probe ends: at the timeout, and after Forget. http.Transport does not cancel
// a dial or a TLS handshake when the request ends.
func TestConnectionsEndWithTheirProbes(t *testing.T) {
	for name, end := range map[string]func(*Prober){
		"timeout": func(*Prober) { time.Sleep(MaxTimeout) },
		"Forget":  func(p *Prober) { p.Forget("pod", "biz1") },
	} {
		for _, scheme := range []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS} {
			t.Run(name+" with "+string(scheme), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var open atomic.Int32
					p := New(Options{Changed: func(Result) {}, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						open.Add(1)
						if scheme == corev1.URISchemeHTTP { // no answer to the dial
							defer open.Add(-1)
							<-ctx.Done()
							return nil, ctx.Err()
						}
						ours, theirs := net.Pipe() // no answer to the handshake
						go func() {
							defer open.Add(-1)
							_, _ = io.Copy(io.Discard, theirs)
						}()
						return ours, nil
					}})
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); p.Start(ctx) }()
					p.Set(Target{
						Pod: "pod", Container: "biz1", Base: "hangs", Address: "10.0.0.1:8080", Started: time.Now(),
						Readiness: httpGet("/", hanging, func(p *corev1.Probe) { p.HTTPGet.Scheme, p.PeriodSeconds = scheme, 1000 }),
					})
					synctest.Wait()
					if n := open.Load(); n != 1 {
						t.Errorf("%d connections are open; want 1", n)
					}
					end(p)
					synctest.Wait()
					if n := open.Load(); n != 0 {
						t.Errorf("%d connections are open after the probe has ended", n)
					}
					cancel()
					<-ended
				})
			})
		}
	}
}
