package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// worker is the state of one probe of a container. Prober.mu guards it.
type worker struct {
	key    key
	target Target
	spec   corev1.Probe
	base   *limits
	cancel context.CancelFunc // cancels the in-flight request; nil before the first request
	slow   bool               // whether the last request was slow

	due time.Time // when the next request is due

	healthy       bool
	message       string
	lastSucceeded bool // whether the last request succeeded
	streak        int  // number of consecutive requests with the same result as the last one
	onHold        bool // whether the probe waits for a restart of the module, because its liveness probe failed
}

// newWorker returns a worker. Before the first request, a liveness probe is healthy, and a readiness probe is not
// healthy. The first probes of modules that were Ready when this controller started are spread randomly over a
// period.
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

// period returns the period of the probe. The field is always set, because the API server has applied the default.
func (w *worker) period() time.Duration {
	return time.Duration(cmp.Or(w.spec.PeriodSeconds, 10)) * time.Second
}

func (w *worker) timeout() time.Duration {
	return min(time.Duration(cmp.Or(w.spec.TimeoutSeconds, 1))*time.Second, MaxTimeout)
}

// recordResult records the result of a request and sets the time when the next request is due. It reports whether
// healthy has changed.
func (w *worker) recordResult(err error, now time.Time) (changed bool) {
	for w.due = w.due.Add(w.period()); w.due.Before(now); { // the response took longer than a period
		w.due = w.due.Add(w.period())
	}
	good := err == nil
	if good != w.lastSucceeded {
		w.streak = 0
	}
	w.lastSucceeded = good
	w.streak++
	threshold := cmp.Or(w.spec.FailureThreshold, 3)
	if good {
		threshold = cmp.Or(w.spec.SuccessThreshold, 1)
	}
	if w.streak < int(threshold) {
		return false
	}
	changed, w.healthy = w.healthy != good, good
	w.message = ""
	if !good {
		w.message = string(w.key.kind) + " probe failed: " + arklet.SanitizeText(err.Error())
		w.onHold = w.key.kind == Liveness
	}
	return changed
}

func (w *worker) result() Result {
	return Result{Pod: w.key.pod, Container: w.key.container, Kind: w.key.kind, Healthy: w.healthy, Message: w.message}
}
