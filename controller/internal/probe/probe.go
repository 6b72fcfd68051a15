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
	// AtOnce is how many requests are under way at most; further ones wait. Default: 64.
	AtOnce int
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

	mu      sync.Mutex
	workers map[key]*worker
	queue   queue
}

// key names one probe of one container.
type key struct {
	pod       types.UID
	container string
	kind      Kind
}

// New returns a Prober. Nothing is sent before Start.
func New(o Options) *Prober {
	o.AtOnce = cmp.Or(o.AtOnce, 64)
	return &Prober{o: o, client: newClient(o), wake: make(chan struct{}, 1), workers: map[key]*worker{}}
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
			w.healthy = old.healthy
		}
		p.workers[k] = w
		heap.Push(&p.queue, w)
	}
	select {
	case p.wake <- struct{}{}:
	default: // it will wake
	}
}

// Forget ends the probes of containers of a Pod. No Result of it comes afterwards, but one that is being told.
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
	w.gone = true
	if w.at >= 0 {
		heap.Remove(&p.queue, w.at)
	}
}

// Start probes until ctx is done, waits for the requests that are under way, and returns nil. Call
// it once.
func (p *Prober) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, p.o.AtOnce)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w, wait := p.next(time.Now())
		if w == nil {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return nil
			case <-p.wake:
			case <-timer.C:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		running.Go(func() {
			defer func() { <-slots }()
			p.run(ctx, w)
		})
	}
}

// idle is how long the prober waits if nothing is to be done.
const idle = time.Hour

// next takes the worker that is due, or says how long to wait for one.
func (p *Prober) next(now time.Time) (*worker, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return nil, idle
	}
	if wait := p.queue[0].due.Sub(now); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&p.queue).(*worker), 0
}

// run asks once, and puts the worker back into the queue.
func (p *Prober) run(ctx context.Context, w *worker) {
	asking, cancel := context.WithTimeout(ctx, w.timeout())
	defer cancel()
	err := get(asking, p.client, w.target, w.spec.HTTPGet)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	if w.gone {
		p.mu.Unlock()
		return
	}
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
