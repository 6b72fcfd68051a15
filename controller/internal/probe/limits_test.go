package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func withLongTimeout(p *corev1.Probe) {
	p.TimeoutSeconds, p.PeriodSeconds, p.FailureThreshold = 100_000, 1, 1
}

// TestSlowProbesUseHalfOfTheLimit checks that slow probes use at most half of the limit, so that other probes are
// sent when they are due. It tests probes of the same base, and probes of many bases that do not respond.
func TestSlowProbesUseHalfOfTheLimit(t *testing.T) {
	for bases, count := range map[int]int{1: 20, 10: 2} {
		t.Run(fmt.Sprint(bases), func(t *testing.T) {
			runTest(t, func(w *fixture) {
				w.answer = func(r *http.Request) int {
					if r.URL.Path == "/good" {
						return 200
					}
					return -1
				}
				for i := range bases * count {
					w.prober.Set(w.target(func(t *Target) {
						t.Pod, t.Base, t.Readiness = types.UID(fmt.Sprint("hangs", i)), fmt.Sprint(i%bases), httpGet(
							"/", withLongTimeout)
					}))
				}
				w.advance(10 * MaxTimeout) // each of them was probed once
				w.prober.Set(w.target(func(t *Target) { t.Base, t.Readiness = "0", httpGet("/good") }))
				synctest.Wait()
				w.wantReady("immediately", true, "")
				w.mu.Lock()
				w.requests = nil
				w.mu.Unlock()
				w.advance(time.Minute)
				w.mu.Lock()
				defer w.mu.Unlock()
				if good := strings.Count(strings.Join(w.requests, "\n"), "/good"); good != 6 {
					t.Errorf("%d probes in a minute with a period of 10 s, want 6: %v", good, w.requests)
				}
			})
		})
	}
}

// TestMaxTimeout checks that a timeout longer than MaxTimeout is reduced to MaxTimeout.
func TestMaxTimeout(t *testing.T) {
	runTest(t, func(w *fixture) {
		w.respondWith(-1)
		w.prober.Set(w.target(func(t *Target) { t.Readiness = httpGet("/", withLongTimeout) }))
		w.advance(MaxTimeout)
		w.wantReady("after MaxTimeout", false, "http://10.0.0.1:8080/ context deadline exceeded")
	})
}

// TestConnectionsAreClosedWithTheirProbes checks that a connection is closed when its probe ends: at the timeout, and
// after Forget. http.Transport alone does not cancel a dial or a TLS handshake when the request ends.
func TestConnectionsAreClosedWithTheirProbes(t *testing.T) {
	for name, end := range map[string]func(*Prober){
		"timeout": func(*Prober) { time.Sleep(MaxTimeout) },
		"Forget":  func(p *Prober) { p.Forget("pod", "biz1") },
	} {
		for _, scheme := range []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS} {
			t.Run(name+" with "+string(scheme), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var open atomic.Int32
					p := New(Options{Changed: func(Result) {},
						Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
							open.Add(1)
							if scheme == corev1.URISchemeHTTP { // the dial does not return
								defer open.Add(-1)
								<-ctx.Done()
								return nil, ctx.Err()
							}
							ours, theirs := net.Pipe() // the handshake is not answered
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
						Readiness: httpGet("/", withLongTimeout,
							func(p *corev1.Probe) { p.HTTPGet.Scheme, p.PeriodSeconds = scheme, 1000 }),
					})
					synctest.Wait()
					if n := open.Load(); n != 1 {
						t.Errorf("%d open connections, want 1", n)
					}
					end(p)
					synctest.Wait()
					if n := open.Load(); n != 0 {
						t.Errorf("%d open connections after the probe has ended, want 0", n)
					}
					cancel()
					<-ended
				})
			})
		}
	}
}
