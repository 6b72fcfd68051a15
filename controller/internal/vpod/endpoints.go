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

// endpoints knows which Pods Services send requests to, by the EndpointSlices of a namespace. They are
// listed only while a module is about to go, once for all Pods of the namespace: a watch would hold
// those of a whole cluster, for a question that is asked for a moment.
type endpoints struct {
	client kubernetes.Interface
	every  time.Duration // between two LISTs of a namespace
	call   func(workerKey)
	lists  *work.Queue[namespaceKey]
	logger *slog.Logger
	denied sync.Once // told that the LIST is forbidden

	mu    sync.Mutex
	looks map[namespaceKey]*look
}

type namespaceKey string

func (n namespaceKey) attrs() []any { return []any{"namespace", string(n)} }

// look is the last LIST of a namespace, and who waits for the next.
type look struct {
	begun   time.Time // zero before the first
	next    time.Time // not before then
	ready   map[types.UID]bool
	waiting map[workerKey]bool
}

// lookEvery is the pause between two LISTs of a namespace: a quarter of MODULE_DRAIN as it is by default.
// Where a LIST takes long, since there are thousands of Pods, a tenth of the time goes into it at most.
const (
	lookEvery = 500 * time.Millisecond
	lookPart  = 10
)

func newEndpoints(client kubernetes.Interface, opts Options, call func(workerKey)) *endpoints {
	e := &endpoints{client: client, every: opts.Speed.Of(lookEvery), call: call, logger: opts.Logger, looks: map[namespaceKey]*look{}}
	e.lists = newQueue(opts, 0, publishAtMost, e.list)
	return e
}

// send says whether a Service sends requests to a Pod, by a LIST that began at since or later, and when
// that was. If there is none yet, known is false: it is made, and then the lane is called. It does not block.
func (e *endpoints) send(namespace string, uid types.UID, since time.Time, lane workerKey) (ready bool, at time.Time, known bool) {
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

// list looks at a namespace if somebody waits for that, and forgets it otherwise.
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
		return 0, err // it is tried again
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

// readyIn lists the Pods of a namespace that Services send requests to. Where that may not be listed,
// there are none: modules are drained for a fixed time then.
func (e *endpoints) readyIn(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	slices, err := e.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		e.denied.Do(func() {
			e.logger.Warn("may not list EndpointSlices: the module of a deleted Pod goes after MODULE_DRAIN, even if a Service sends it requests still", "err", err)
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

// sends says whether requests are sent to an endpoint. One of a Service that publishes addresses that
// are not ready is called ready to its end: there it counts that it serves, and is not being deleted.
func sends(c discoveryv1.EndpointConditions) bool {
	ready := ptr.Deref(c.Ready, true)
	return ready && ptr.Deref(c.Serving, ready) && !ptr.Deref(c.Terminating, false)
}

// quietSince is the beginning of the first LIST that showed that no Service sends requests to a Pod,
// which turned Not Ready at since; zero while there is none. At first it looks in the middle of the drain,
// so that the other half is left for those who follow the endpoints. The caller holds the store's lock.
func (p *Provider) quietSince(e *entry, since, now time.Time, lane workerKey) time.Time {
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
