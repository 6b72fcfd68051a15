package probe

import (
	"cmp"
	"container/heap"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is what a probe is for.
type Kind string

// The kinds.
const (
	// Readiness decides whether requests go to a module.
	Readiness Kind = "readiness"
	// Liveness decides whether a module is to be started anew.
	Liveness Kind = "liveness"
)

// Target is a container that runs, and how it is probed.
type Target struct {
	// Pod and Container name it.
	Pod       types.UID
	Container string
	// Base identifies the base that runs the module. Concurrent requests to one base are limited.
	Base string
	// Started is when the module was started: InitialDelaySeconds counts from it. Another time
	// means that it was started anew, and all begins anew.
	Started time.Time
	// Address is the base's web listener, host:port; see Address.
	Address string
	// ContextPath is the web context path of the module, with or without slashes; empty means none.
	// It is put before the path of a probe that does not begin with it.
	ContextPath string
	// WasReady says that the container was Ready before this controller began, so it stays so
	// until a probe says otherwise. Default: a container is Not Ready until it was probed.
	WasReady bool
	// Readiness and Liveness are the probes; nil, or one that is not httpGet, is none. Leave
	// Liveness out when the Pod is being deleted.
	Readiness, Liveness *corev1.Probe
}

// Result is a change: a probe has come to another verdict.
type Result struct {
	Pod       types.UID
	Container string
	Started   time.Time
	Kind      Kind
	// Healthy is the verdict. A Liveness that is not means: start the module anew.
	Healthy bool
	// Message says why it is not healthy.
	Message string
}

// Options of a Prober. Changed is required.
type Options struct {
	// Changed hears of every change of a verdict; those of one container and kind come one after
	// the other. It must not block.
	Changed func(Result)
	// Concurrency is the maximum number of concurrent requests. Default: 256.
	Concurrency int
	// Dial connects to the web listener of a base. Default: it dials the address directly.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport sends the requests. Default: one connection for each request, made by Dial, which accepts
	// every certificate, as a kubelet does.
	Transport http.RoundTripper
}

// Prober probes modules. Make it with New; its methods may be called concurrently and do not block.
type Prober struct {
	o      Options
	client *http.Client
	wake   chan struct{} // the queue has changed
	limits *limits

	mu      sync.Mutex
	workers map[key]*worker
	queue   queue
	bases   map[string]*limits
}

// key names one probe of one container.
type key struct {
	pod       types.UID
	container string
	kind      Kind
}

// New returns a Prober. Nothing is sent before Start.
func New(o Options) *Prober {
	return &Prober{
		o: o, client: newClient(o), wake: make(chan struct{}, 1), limits: newLimits(cmp.Or(o.Concurrency, defaultConcurrency)),
		workers: map[key]*worker{}, bases: map[string]*limits{},
	}
}

// Set begins to probe a container, or changes how. It does nothing if nothing is new.
func (p *Prober) Set(t Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for kind, spec := range map[Kind]*corev1.Probe{Readiness: t.Readiness, Liveness: t.Liveness} {
		k := key{t.Pod, t.Container, kind}
		old, known := p.workers[k]
		switch {
		case spec == nil || spec.HTTPGet == nil:
			p.drop(k)
			continue
		case known && old.target.Started.Equal(t.Started) && old.target.Address == t.Address && old.target.ContextPath == t.ContextPath &&
			equality.Semantic.DeepEqual(old.spec, *spec):
			continue
		}
		p.drop(k)
		w := newWorker(k, t, *spec, time.Now())
		if known && old.target.Started.Equal(t.Started) { // asked elsewhere, or otherwise: what is known holds
			w.healthy, w.slow = old.healthy, old.slow
		}
		if p.bases[t.Base] == nil {
			p.bases[t.Base] = newLimits(baseConcurrency)
		}
		w.base = p.bases[t.Base]
		w.base.users++
		p.workers[k] = w
		heap.Push(&p.queue, w)
	}
	select {
	case p.wake <- struct{}{}:
	default: // it will wake
	}
}

// Forget ends the probes of containers of a Pod, and cancels their requests. Changed is not called for them
// afterwards, except for a call that has begun.
func (p *Prober) Forget(pod types.UID, containers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, container := range containers {
		p.drop(key{pod, container, Readiness})
		p.drop(key{pod, container, Liveness})
	}
}

// Ready reports whether a container that runs is ready as far as its readiness probe says, and, if
// not, why. One without a readiness probe is.
func (p *Prober) Ready(pod types.UID, container string) (ready bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, known := p.workers[key{pod, container, Readiness}]
	if !known || w.healthy {
		return true, ""
	}
	return false, cmp.Or(w.message, "the readiness probe has not succeeded yet")
}

// drop is called with the lock held.
func (p *Prober) drop(k key) {
	w, known := p.workers[k]
	if !known {
		return
	}
	delete(p.workers, k)
	w.cancel()
	w.base.users--
	if w.base.users == 0 {
		delete(p.bases, w.target.Base)
	}
	if w.at >= 0 {
		heap.Remove(&p.queue, w.at)
	}
}

// Start probes until ctx is done, waits for the requests that are under way, and returns nil. Call
// it once.
func (p *Prober) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w, probing, wait := p.next(ctx, time.Now())
		if w != nil {
			running.Go(func() { p.run(probing, w) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// idle is how long the prober waits if nothing is to be done.
const idle = time.Hour

// next removes the worker that is due from the queue. The context is canceled when the worker is dropped. If no
// worker is due, next returns how long to wait for one.
func (p *Prober) next(ctx context.Context, now time.Time) (*worker, context.Context, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 || ctx.Err() != nil {
		return nil, nil, idle
	}
	if wait := p.queue[0].due.Sub(now); wait > 0 {
		return nil, nil, wait
	}
	w := heap.Pop(&p.queue).(*worker)
	ctx, w.cancel = context.WithCancel(ctx)
	return w, ctx, 0
}

// run sends one request when the limits allow it, and puts the worker back into the queue.
func (p *Prober) run(ctx context.Context, w *worker) {
	defer w.cancel()
	slow := w.slow
	for _, l := range []*limits{w.base, p.limits} {
		if l.acquire(ctx, slow) != nil {
			return
		}
		defer l.release(slow)
	}
	sent := time.Now()
	asking, cancel := context.WithTimeout(ctx, w.timeout())
	defer cancel()
	err := get(asking, p.client, w.target, w.spec.HTTPGet)
	p.mu.Lock()
	if ctx.Err() != nil { // the worker was dropped, or Start ends
		p.mu.Unlock()
		return
	}
	w.slow = time.Since(sent) >= slowAfter
	changed := w.note(err, time.Now())
	if !w.onHold {
		heap.Push(&p.queue, w)
	}
	result := w.result()
	p.mu.Unlock()
	if changed {
		p.o.Changed(result)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
