// Package probe sends readiness and liveness probes of type httpGet to modules, on the web port of their base.
//
// It follows the rules and defaults of the kubelet (pkg/kubelet/prober in Kubernetes 1.37). A module is Not Ready
// before its first probe, unless it was Ready when this controller started. After its liveness probe has failed, a
// module is not probed for liveness until it has restarted. Concurrent requests are limited per base and in total.
package probe

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// Kind is the purpose of a probe: readiness or liveness.
type Kind string

// Kinds of probes.
const (
	Readiness Kind = "readiness"
	Liveness  Kind = "liveness"
)

// Target is a container to probe.
type Target struct {
	Pod       types.UID
	Container string
	// Base is the identity of the base that runs the module. Concurrent requests to one base are limited.
	Base string
	// Started is the time when the module started. If this time changes, the probes start again with the initial
	// delay.
	Started time.Time
	// Address is the address of the web listener, as host:port; see the function Address.
	Address string
	// ContextPath is the web context path of the module, with or without slashes; empty means none. It is added to
	// the path of a probe if the path does not begin with it.
	ContextPath string
	// WasReady is true if the container was Ready when this controller started. Such a container stays Ready until a
	// probe fails.
	WasReady bool
	// Readiness and Liveness are the probes of the container. A probe that is nil or not of type httpGet is ignored.
	Readiness, Liveness *corev1.Probe
}

// Result is a probe result that differs from the previous result.
type Result struct {
	Pod       types.UID
	Container string
	Kind      Kind
	Healthy   bool
	Message   string // reason why the module is not healthy; empty if it is healthy
}

// Options configure a Prober. Changed is required.
type Options struct {
	// Changed is called for every change of a probe result. Calls for the same container and kind do not overlap. It
	// must not block.
	Changed func(Result)
	// Dial connects to the web listener of a base. Default: a direct connection to the address.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport sends the probe requests. The default opens a new connection with Dial for each request, and accepts
	// every certificate, as the kubelet does.
	Transport http.RoundTripper
}

// Prober probes modules. Create it with New. Its methods are safe for concurrent use. Only Start blocks.
type Prober struct {
	o      Options
	client *http.Client
	queue  *work.Queue[key]
	limits *limits

	mu      sync.Mutex
	workers map[key]*worker
	bases   map[string]*limits
}

// key identifies a probe of a container.
type key struct {
	pod       types.UID
	container string
	kind      Kind
}

// New returns a Prober. It does not send requests before Start is called.
func New(o Options) *Prober {
	p := &Prober{
		o: o, client: newClient(o), limits: newLimits(concurrency),
		workers: map[key]*worker{}, bases: map[string]*limits{},
	}
	p.queue = work.New(work.Options[key]{Do: p.probe})
	return p
}

// Set starts the probes of a container. If the container already has probes and t differs from the previous call, Set
// changes the probes.
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
		case known && old.target.Started.Equal(t.Started) && old.target.Address == t.Address &&
			old.target.ContextPath == t.ContextPath &&
			equality.Semantic.DeepEqual(old.spec, *spec):
			continue
		}
		p.drop(k)
		w := newWorker(k, t, *spec, time.Now())
		if known && old.target.Started.Equal(t.Started) { // only the address or the probe has changed
			w.healthy, w.slow = old.healthy, old.slow
		}
		if p.bases[t.Base] == nil {
			p.bases[t.Base] = newLimits(baseConcurrency)
		}
		w.base = p.bases[t.Base]
		w.base.users++
		p.workers[k] = w
		p.queue.AddAfter(k, time.Until(w.due))
	}
}

// Forget stops the probes of containers of a Pod, and cancels their in-flight requests. After Forget returns,
// Options.Changed is not called for these containers, except for a call that is already in progress.
func (p *Prober) Forget(pod types.UID, containers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, container := range containers {
		p.drop(key{pod, container, Readiness})
		p.drop(key{pod, container, Liveness})
	}
}

// Ready reports whether a container is ready according to its readiness probe. If it is not ready, Ready also returns
// the reason. A container without a readiness probe is ready.
func (p *Prober) Ready(pod types.UID, container string) (ready bool, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, known := p.workers[key{pod, container, Readiness}]
	if !known || w.healthy {
		return true, ""
	}
	return false, cmp.Or(w.message, "the readiness probe has not succeeded yet")
}

// drop removes a probe and cancels its in-flight request. The caller holds the lock.
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
}

// Start sends probe requests until ctx is done. It returns after all requests have ended. Call it once.
func (p *Prober) Start(ctx context.Context) { p.queue.Run(ctx) }

// probe sends one request if the request is due. It returns the time at which to send the next request.
func (p *Prober) probe(ctx context.Context, k key) (requeueAfter time.Duration, _ error) {
	p.mu.Lock()
	w := p.workers[k]
	if w == nil || w.onHold {
		p.mu.Unlock()
		return 0, nil
	}
	if left := time.Until(w.due); left > 0 {
		p.mu.Unlock()
		return left, nil
	}
	ctx, w.cancel = context.WithCancel(ctx) // drop cancels it
	defer w.cancel()
	slow := w.slow
	p.mu.Unlock()
	for _, l := range []*limits{w.base, p.limits} {
		if l.acquire(ctx, slow) != nil {
			return 0, nil
		}
		defer l.release(slow)
	}
	sent := time.Now()
	requestCtx, cancel := context.WithTimeout(ctx, w.timeout())
	defer cancel()
	err := get(requestCtx, p.client, w.target, w.spec.HTTPGet)
	p.mu.Lock()
	if ctx.Err() != nil { // the worker was dropped, or Start ends
		p.mu.Unlock()
		return 0, nil
	}
	w.slow = time.Since(sent) >= slowAfter
	changed := w.recordResult(err, time.Now())
	result, requeueAfter := w.result(), max(time.Until(w.due), 1)
	if w.onHold {
		requeueAfter = 0
	}
	p.mu.Unlock()
	if changed {
		p.o.Changed(result)
	}
	return requeueAfter, nil
}
