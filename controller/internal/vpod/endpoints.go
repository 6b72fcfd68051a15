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

// endpoints determines to which Pods Services send requests. It lists the EndpointSlices of a namespace only while
// modules of the namespace wait to be uninstalled. A watch would keep the EndpointSlices of the whole cluster in
// memory.
type endpoints struct {
	client    kubernetes.Interface
	interval  time.Duration // minimum delay between two lists of a namespace
	notify    func(slotKey)
	listQueue *work.Queue[namespaceKey]
	logger    *slog.Logger
	denied    sync.Once // ensures that missing permission to list EndpointSlices is logged only once

	mu         sync.Mutex
	namespaces map[namespaceKey]*namespaceEndpoints
}

type namespaceKey string

func (n namespaceKey) attrs() []any { return []any{"namespace", string(n)} }

// namespaceEndpoints contains the last list of EndpointSlices of a namespace, and the module slots that wait for the
// next list.
type namespaceEndpoints struct {
	listedAt time.Time // start of the last list request; zero before the first one
	nextList time.Time // earliest time of the next list request
	ready    map[types.UID]bool
	waiting  map[slotKey]bool
}

// minListInterval is the minimum delay between two list requests for a namespace. The delay is also at least
// listIntervalFactor times the duration of the last list.
const (
	minListInterval    = 500 * time.Millisecond
	listIntervalFactor = 10
)

func newEndpoints(client kubernetes.Interface, opts Options, call func(slotKey)) *endpoints {
	e := &endpoints{client: client, interval: opts.TimeScale.Of(minListInterval), notify: call, logger: opts.Logger,
		namespaces: map[namespaceKey]*namespaceEndpoints{}}
	e.listQueue = newQueue(opts, 0, opts.TimeScale.Of(maxPublishDelay), e.list)
	return e
}

// sendsTo reports whether a Service sends requests to a Pod, according to a list that began at since or later. at is
// the start time of that list. If there is no such list yet, known is false, and notify is called for slot after the
// next list. sendsTo does not block.
func (e *endpoints) sendsTo(namespace string, uid types.UID, since time.Time, slot slotKey) (ready bool, at time.Time,
	known bool) {
	key := namespaceKey(namespace)
	e.mu.Lock()
	l := e.namespaces[key]
	if l == nil {
		l = &namespaceEndpoints{waiting: map[slotKey]bool{}}
		e.namespaces[key] = l
	}
	known = !l.listedAt.Before(since)
	ready, at = l.ready[uid], l.listedAt
	if !known {
		l.waiting[slot] = true
	}
	e.mu.Unlock()
	if !known {
		e.listQueue.Add(key)
	}
	return ready, at, known
}

// list lists the EndpointSlices of a namespace if a module slot waits for the list. Otherwise, it stops tracking the
// namespace.
func (e *endpoints) list(ctx context.Context, key namespaceKey) (requeueAfter time.Duration, err error) {
	start := time.Now()
	e.mu.Lock()
	l := e.namespaces[key]
	left := time.Duration(0)
	if l != nil {
		left = l.nextList.Sub(start)
		if left <= 0 && len(l.waiting) == 0 {
			delete(e.namespaces, key)
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
	pause := max(e.interval, listIntervalFactor*time.Since(start))
	l.listedAt, l.nextList, l.ready, l.waiting = start, start.Add(pause), ready, map[slotKey]bool{}
	e.mu.Unlock()
	for slot := range waiting {
		e.notify(slot)
	}
	return pause, nil
}

// readyIn returns the UIDs of the Pods of a namespace to which Services send requests. If listing is forbidden, it
// returns no UIDs; modules are then drained only for Options.Drain.
func (e *endpoints) readyIn(ctx context.Context, namespace string) (map[types.UID]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	slices, err := e.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		e.denied.Do(func() {
			e.logger.Warn("no permission to list EndpointSlices: the module of a deleted Pod is uninstalled after "+
				"MODULE_DRAIN, even if a Service still sends requests to it", "err", err)
		})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ready := map[types.UID]bool{}
	for _, s := range slices.Items {
		for _, end := range s.Endpoints {
			if end.TargetRef != nil && receivesRequests(end.Conditions) {
				ready[end.TargetRef.UID] = true
			}
		}
	}
	return ready, nil
}

// receivesRequests reports whether Services send requests to an endpoint. With publishNotReadyAddresses, endpoints are
// ready even while they terminate, so terminating endpoints are excluded.
func receivesRequests(c discoveryv1.EndpointConditions) bool {
	ready := ptr.Deref(c.Ready, true)
	return ready && ptr.Deref(c.Serving, ready) && !ptr.Deref(c.Terminating, false)
}

// endpointsDrainedSince returns the start of the first list in which no Service sends requests to a Pod that became
// Not Ready at since; zero if there is no such list. The first list starts after half of the drain period. The other
// half gives kube-proxy and other clients time to apply the new endpoints. The caller holds the lock of the store.
func (p *Provider) endpointsDrainedSince(e *podRecord, since, now time.Time, slot slotKey) time.Time {
	if since.IsZero() || p.opts.Drain <= 0 {
		return since
	}
	if !e.endpointsDrained.Before(since) {
		return e.endpointsDrained
	}
	e.endpointsDrained = time.Time{}
	due := since.Add(p.opts.Drain / 2)
	if again := e.endpointsServing.Add(p.opts.Drain / 2); again.After(due) {
		due = again
	}
	if now.Before(due) {
		return time.Time{}
	}
	ready, at, known := p.endpoints.sendsTo(e.pod.Namespace, e.uid, due, slot)
	if known && ready {
		e.endpointsServing = at
	} else if known {
		e.endpointsDrained = at
	}
	return e.endpointsDrained
}
