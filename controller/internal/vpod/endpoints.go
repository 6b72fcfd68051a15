package vpod

import (
	"context"
	"log/slog"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// endpoints knows which Pods Services send requests to. It lists the EndpointSlices of a namespace while a module waits to
// be uninstalled there: a watch would keep those of the whole cluster in memory.
type endpoints struct {
	client kubernetes.Interface
	every  time.Duration // between two lists of a namespace
	call   func(workerKey)
	lists  *work.Queue[namespaceKey]
	logger *slog.Logger
	denied sync.Once // the log has a warning that the list is forbidden

	mu    sync.Mutex
	looks map[namespaceKey]*look
}

type namespaceKey string

func (n namespaceKey) attrs() []any { return []any{"namespace", string(n)} }

// look is the last list of a namespace, and the lanes that wait for the next one.
type look struct {
	begun   time.Time // zero before the first
	next    time.Time // not before then
	ready   map[types.UID]bool
	waiting map[workerKey]bool
}

// lookEvery is the minimum delay between two lists of a namespace. The delay is also at least lookPart times the duration of
// a list.
const (
	lookEvery = 500 * time.Millisecond
	lookPart  = 10
)

func newEndpoints(client kubernetes.Interface, opts Options, call func(workerKey)) *endpoints {
	e := &endpoints{client: client, every: opts.TimeScale.Of(lookEvery), call: call, logger: opts.Logger,
		looks: map[namespaceKey]*look{}}
	e.lists = newQueue(opts, 0, opts.TimeScale.Of(publishAtMost), e.list)
	return e
}

// send reports whether a Service sends requests to a Pod, according to a list that began at since or later, and when that
// was. If there is no such list yet, known is false, and the lane is called after the next list. send does not block.
func (e *endpoints) send(namespace string, uid types.UID, since time.Time, lane workerKey) (ready bool, at time.Time,
	known bool) {
	key := namespaceKey(namespace)
	e.mu.Lock()
	l := e.looks[key]
	if l == nil {
		l = &look{waiting: map[workerKey]bool{}}
		e.looks[key] = l
	}
	known = !l.begun.Before(since)
	ready, at = l.ready[uid], l.begun
	if !known {
		l.waiting[lane] = true
	}
	e.mu.Unlock()
	if !known {
		e.lists.Add(key)
	}
	return ready, at, known
}

// list lists a namespace if a lane waits for that, and forgets it otherwise.
func (e *endpoints) list(ctx context.Context, key namespaceKey) (again time.Duration, err error) {
	begun := time.Now()
	e.mu.Lock()
	l := e.looks[key]
	left := time.Duration(0)
	if l != nil {
		left = l.next.Sub(begun)
		if left <= 0 && len(l.waiting) == 0 {
			delete(e.looks, key)
			l = nil
		}
	}
	e.mu.Unlock()
	if l == nil || left > 0 {
		return max(left, 0), nil
	}
	ready, err := e.readyIn(ctx, string(key))
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	waiting := l.waiting
	pause := max(e.every, lookPart*time.Since(begun))
	l.begun, l.next, l.ready, l.waiting = begun, begun.Add(pause), ready, map[workerKey]bool{}
	e.mu.Unlock()
	for lane := range waiting {
		e.call(lane)
	}
	return pause, nil
}

// readyIn returns the Pods of a namespace that Services send requests to. It returns none if the list is forbidden: modules
// are then drained for a fixed time.
func (e *endpoints) readyIn(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	slices, err := e.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		e.denied.Do(func() {
			e.logger.Warn("may not list EndpointSlices: the module of a deleted Pod goes after MODULE_DRAIN, even if "+
				"a Service sends it requests still", "err", err)
		})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ready := map[types.UID]bool{}
	for _, s := range slices.Items {
		for _, end := range s.Endpoints {
			if end.TargetRef != nil && sends(end.Conditions) {
				ready[end.TargetRef.UID] = true
			}
		}
	}
	return ready, nil
}

// sends reports whether requests are sent to an endpoint. Services with publishNotReadyAddresses always show Pods as ready.
func sends(c discoveryv1.EndpointConditions) bool {
	ready := ptr.Deref(c.Ready, true)
	return ready && ptr.Deref(c.Serving, ready) && !ptr.Deref(c.Terminating, false)
}

// quietSince returns when the first list began that shows that no Service sends requests to a Pod, which turned Not Ready at
// since; zero if there is none. The first list is in the middle of the drain: the other half is for the clients of the
// endpoints. The caller holds the lock of the store.
func (p *Provider) quietSince(e *podRecord, since, now time.Time, lane workerKey) time.Time {
	if since.IsZero() || p.opts.Drain <= 0 {
		return since
	}
	if !e.quiet.Before(since) {
		return e.quiet
	}
	e.quiet = time.Time{}
	due := since.Add(p.opts.Drain / 2)
	if again := e.sent.Add(p.opts.Drain / 2); again.After(due) {
		due = again
	}
	if now.Before(due) {
		return time.Time{}
	}
	ready, at, known := p.endpoints.send(e.pod.Namespace, e.uid, due, lane)
	if known && ready {
		e.sent = at
	} else if known {
		e.quiet = at
	}
	return e.quiet
}
