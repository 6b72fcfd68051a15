package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// worker is a probe of a container. The lock of the Prober guards it.
type worker struct {
	key    key
	target Target
	spec   corev1.Probe
	base   *limits
	cancel context.CancelFunc // cancels the request in flight; nil before the first one
	slow   bool               // whether the last request was slow

	due time.Time // of the next request

	healthy bool
	message string
	last    bool // whether the last request succeeded
	run     int  // number of requests in a row with that result
	onHold  bool // the liveness probe has failed, and the module has not restarted yet
}

// newWorker returns a worker. Before the first request, a module is alive and not ready. The first probes of modules that were
// Ready when this controller started are spread over a period.
func newWorker(k key, t Target, spec corev1.Probe, now time.Time) *worker {
	w := &worker{key: k, target: t, spec: spec, cancel: func() {}, healthy: k.kind == Liveness || t.WasReady}
	w.due = t.Started.Add(time.Duration(spec.InitialDelaySeconds) * time.Second)
	if w.due.Before(now) {
		w.due = now
	}
	if t.WasReady {
		w.due = w.due.Add(rand.N(w.period()))
	}
	return w
}

// period returns the period of the probe, with the default of the API server, as the other settings.
func (w *worker) period() time.Duration {
	return time.Duration(cmp.Or(w.spec.PeriodSeconds, 10)) * time.Second
}

func (w *worker) timeout() time.Duration {
	return min(time.Duration(cmp.Or(w.spec.TimeoutSeconds, 1))*time.Second, MaxTimeout)
}

// note records the result of a request and when to send the next one, and reports whether healthy has changed.
func (w *worker) note(err error, now time.Time) (changed bool) {
	for w.due = w.due.Add(w.period()); w.due.Before(now); { // an answer took longer than a period
		w.due = w.due.Add(w.period())
	}
	good := err == nil
	if good != w.last {
		w.run = 0
	}
	w.last = good
	w.run++
	threshold := cmp.Or(w.spec.FailureThreshold, 3)
	if good {
		threshold = cmp.Or(w.spec.SuccessThreshold, 1)
	}
	if w.run < int(threshold) {
		return false
	}
	changed, w.healthy = w.healthy != good, good
	w.message = ""
	if !good {
		w.message = string(w.key.kind) + " probe failed: " + arklet.Text(err.Error())
		w.onHold = w.key.kind == Liveness
	}
	return changed
}

func (w *worker) result() Result {
	return Result{Pod: w.key.pod, Container: w.key.container, Kind: w.key.kind, Healthy: w.healthy, Message: w.message}
}
