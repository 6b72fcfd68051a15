package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// worker is one probe of one container. The prober's lock guards it; what run reads does not change.
type worker struct {
	key    key
	target Target
	spec   corev1.Probe
	base   *limits
	cancel context.CancelFunc // cancels the request in flight; nil before the first one
	slow   bool               // whether the last request was slow

	due time.Time // of the next request

	healthy bool // the verdict
	message string
	last    bool // the last answer, and how often in a row it was that
	run     int
	onHold  bool // a module that failed its liveness probe waits to be started anew
}

// newWorker returns a worker with the verdict that holds until there are answers: alive, and not
// ready. Probes of what was there before this controller are spread over a period, or all would
// come at once.
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

// The defaults are those of the API server, for what did not come through it.
func (w *worker) period() time.Duration {
	return time.Duration(cmp.Or(w.spec.PeriodSeconds, 10)) * time.Second
}

func (w *worker) timeout() time.Duration {
	return min(time.Duration(cmp.Or(w.spec.TimeoutSeconds, 1))*time.Second, MaxTimeout)
}

// note takes an answer, nil if it was good, sets when to ask again, and says whether the verdict has
// changed.
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
	return Result{Pod: w.key.pod, Container: w.key.container, Started: w.target.Started, Kind: w.key.kind, Healthy: w.healthy, Message: w.message}
}
