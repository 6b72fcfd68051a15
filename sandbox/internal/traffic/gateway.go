package traffic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// ErrNoEndpoint is wrapped in the error that is returned if a Service has no endpoint to select: the Service or its
// port does not exist, or has no endpoints.
var ErrNoEndpoint = errors.New("no endpoint")

// GatewayOptions configures a Gateway.
type GatewayOptions struct {
	// Client reads Services and EndpointSlices. Required.
	Client kubernetes.Interface
	// Targets finds the bases behind endpoints. Required.
	Targets Targets
	// Network is the address range of the bases. The gateway refuses connections to unused addresses of the range, as
	// a real network would. It forbids connections to addresses that neither belong to a base nor are in the range.
	// Default: none.
	Network netip.Prefix
	// External reports whether addr, a host:port on this machine, is the command port of a base outside the sandbox.
	// Default: no such base exists.
	External func(addr string) bool
	// Seed is the random seed for endpoint selection. Default: a random seed.
	Seed uint64
	// Clock measures the session affinity timeout. Default: the real clock.
	Clock clock.PassiveClock
	// Logger logs errors. Default: nothing is logged.
	Logger *slog.Logger
}

// Gateway watches the Services of all namespaces and connects clients to the bases behind them. It is also an HTTP
// proxy. All methods may be called concurrently.
type Gateway struct {
	o     GatewayOptions
	proxy *httputil.ReverseProxy

	request   func() // starts the watches; called on first use
	requested chan struct{}
	synced    chan struct{}

	// refreshing serializes calls of refresh, so that the last refresh of a Service uses the newest objects.
	refreshing sync.Mutex
	services   cache.Indexer
	slices     cache.Indexer

	mu       sync.Mutex // guards the following fields
	rnd      *rand.Rand
	backends map[types.NamespacedName]*backend
	sticky   map[stickyKey]lastEndpoint
	change   chan struct{} // closed and replaced when backends changes
}

type stickyKey struct {
	service      types.NamespacedName
	port, client string
}

// Route identifies a port of a Service and its client.
type Route struct {
	Namespace, Service string
	// Port is the name, the number or the target port of a Service port. Default: the first port of the Service.
	Port string
	// Client identifies the client for session affinity. Different values are treated as different client addresses.
	Client string

	// draw returns a random number in [0, n). It is called with the lock of the gateway held. Default: the random
	// source of the gateway.
	draw func(n int) int
}

func (r *Route) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Service}
}

// NewGateway returns a Gateway. Its watches start on first use.
func NewGateway(o GatewayOptions) *Gateway {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.External == nil {
		o.External = func(string) bool { return false }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		o: o, requested: make(chan struct{}), synced: make(chan struct{}),
		rnd:      rand.New(rand.NewPCG(o.Seed, 0)),
		backends: map[types.NamespacedName]*backend{}, sticky: map[stickyKey]lastEndpoint{},
		change: make(chan struct{}),
	}
	g.request = sync.OnceFunc(func() { close(g.requested) })
	g.proxy = g.newProxy()
	return g
}

// Start waits for the first use of the gateway, and then watches Services and EndpointSlices. It blocks until ctx
// ends. Call Start once.
func (g *Gateway) Start(ctx context.Context) error {
	select {
	case <-g.requested:
	case <-ctx.Done():
		return nil
	}
	g.services = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	g.slices = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byService: indexByService})
	services, slices := make(chan struct{}), make(chan struct{}) // closed after the first list
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		maintainStore(ctx, servicesOf(g.o.Client), &corev1.Service{},
			&notifyingStore{g.services, g.objectChanged, sync.OnceFunc(func() { close(services) })})
	})
	following.Go(func() {
		maintainStore(ctx, slicesOf(g.o.Client), &discoveryv1.EndpointSlice{},
			&notifyingStore{g.slices, g.objectChanged, sync.OnceFunc(func() { close(slices) })})
	})
	for _, known := range []chan struct{}{services, slices} {
		select {
		case <-known:
		case <-ctx.Done():
			return nil
		}
	}
	close(g.synced)
	<-ctx.Done()
	return nil
}

// Ready starts the watches if necessary. It blocks until the Services and EndpointSlices have been listed, or ctx
// ends.
func (g *Gateway) Ready(ctx context.Context) error {
	g.request()
	select {
	case <-g.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the list of Services: %w", context.Cause(ctx))
	}
}

const byService = "service"

func indexByService(obj any) ([]string, error) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || s.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}, nil
}

// objectChanged refreshes the backend of a Service after a change of the Service or one of its EndpointSlices.
func (g *Gateway) objectChanged(obj any) {
	switch o := obj.(type) {
	case *corev1.Service:
		g.refresh(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case *discoveryv1.EndpointSlice:
		if name := o.Labels[discoveryv1.LabelServiceName]; name != "" {
			g.refresh(types.NamespacedName{Namespace: o.Namespace, Name: name})
		}
	}
}

func (g *Gateway) refresh(key types.NamespacedName) {
	g.refreshing.Lock()
	defer g.refreshing.Unlock()
	var b *backend
	obj, ok, err := g.services.GetByKey(key.String())
	if svc, is := obj.(*corev1.Service); err == nil && ok && is {
		found, err := g.slices.ByIndex(byService, key.String())
		if err != nil {
			g.o.Logger.Error("could not look up EndpointSlices", "service", key, "err", err)
		}
		list := make([]*discoveryv1.EndpointSlice, 0, len(found))
		for _, f := range found {
			if s, ok := f.(*discoveryv1.EndpointSlice); ok {
				list = append(list, s)
			}
		}
		b = backendOf(svc, list)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.change)
	g.change = make(chan struct{})
	if b != nil {
		g.backends[key] = b
		return
	}
	delete(g.backends, key)
	for k := range g.sticky {
		if k.service == key {
			delete(g.sticky, k)
		}
	}
}

// WaitForEndpoint blocks until the Services have been listed, and then until the Service has an endpoint, but at most
// for 2 s. The wait is needed because a Pod becomes Ready shortly before its endpoint is added. WaitForEndpoint
// returns an error only if ctx ends before the Services have been listed.
func (g *Gateway) WaitForEndpoint(ctx context.Context, r Route) error {
	if err := g.Ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	g.waitForEndpoint(ctx, r)
	return nil
}

// waitForEndpoint blocks until a Service has an endpoint, or ctx ends.
func (g *Gateway) waitForEndpoint(ctx context.Context, r Route) {
	for {
		g.mu.Lock()
		change := g.change
		b := g.backends[r.key()]
		g.mu.Unlock()
		if b != nil {
			if p, ok := b.port(r.Port); ok && len(p.endpoints) > 0 {
				return
			}
		}
		select {
		case <-change:
		case <-ctx.Done():
			return
		}
	}
}

// Pick selects an endpoint of a Service, as kube-proxy does for a new connection: the last endpoint of the client if
// session affinity applies, and otherwise a random endpoint. It does not block, and requires that Ready has returned.
// Its errors wrap ErrNoEndpoint. The Target has no listener if no base has the address of the endpoint, or if the
// base does not listen on the port of the endpoint.
func (g *Gateway) Pick(r Route) (Target, error) {
	e, err := g.choose(r)
	if err != nil {
		return Target{}, err
	}
	t, _ := g.o.Targets.ByIP(e.ip)
	t.IP, t.Pod = e.ip, e.pod
	return t.WithPort(e.port), nil
}

func (g *Gateway) choose(r Route) (endpoint, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, affinity, none := g.endpoints(r)
	if none != "" {
		return endpoint{}, fmt.Errorf("%w: %s", ErrNoEndpoint, none)
	}
	draw := g.rnd.IntN
	if r.draw != nil {
		draw = r.draw
	}
	dialled := func(i int) (endpoint, error) {
		e := p.endpoints[i]
		e.port = p.dialled(e, r.Port)
		return e, nil
	}
	if affinity <= 0 {
		return dialled(draw(len(p.endpoints)))
	}
	k := stickyKey{r.key(), p.name, r.Client}
	s := g.sticky[k]
	i := s.choose(len(p.endpoints), func(i int) string { return p.endpoints[i].ip }, affinity, g.o.Clock.Now(), draw)
	g.sticky[k] = s
	return dialled(i)
}

// endpoints returns the requested Service port with its endpoints, and the session affinity timeout. If there is no
// endpoint to select, none is the reason. The caller must hold g.mu.
func (g *Gateway) endpoints(r Route) (p *backendPort, affinity time.Duration, none string) {
	b, ok := g.backends[r.key()]
	if !ok {
		return nil, 0, fmt.Sprintf("Service %s does not exist", r.key())
	}
	if len(b.ports) == 0 {
		return nil, 0, fmt.Sprintf("Service %s has no ports, so it has no endpoints; check that its type is not "+
			"ExternalName", r.key())
	}
	p, ok = b.port(r.Port)
	if !ok {
		return nil, 0, fmt.Sprintf("Service %s has no port %q", r.key(), r.Port)
	}
	if p.unresolved {
		return nil, 0, fmt.Sprintf(
			"Service %s has targetPort %q, but no container of its Pods has a port with this name", r.key(), p.target)
	}
	if len(p.endpoints) == 0 {
		return nil, 0, fmt.Sprintf("Service %s has no endpoint that is ready, or serving while terminating", r.key())
	}
	return p, b.affinity, ""
}

// Targets returns the targets from which Pick selects, and a channel that is closed when the targets may have
// changed. Only the address, the port and the Pod of each target are set. Targets does not block; see
// WaitForEndpoint.
func (g *Gateway) Targets(r Route) (c TargetSet, change <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, affinity, none := g.endpoints(r)
	c.Affinity, c.EmptyReason = affinity, none
	if none == "" {
		c.Targets = make([]Target, len(p.endpoints))
		for i, e := range p.endpoints {
			c.Targets[i] = Target{IP: e.ip, Pod: e.pod, Port: p.dialled(e, r.Port)}
		}
	}
	return c, g.change
}

// Dial selects an endpoint, as Pick does, and connects to the base behind it. It blocks until the Services have been
// listed. The error wraps ErrNoEndpoint or a *DialError, unless ctx ends first.
func (g *Gateway) Dial(ctx context.Context, r Route) (net.Conn, error) {
	if err := g.Ready(ctx); err != nil {
		return nil, err
	}
	t, err := g.Pick(r)
	if err != nil {
		return nil, err
	}
	return connect(ctx, t, t.Web)
}

func connect(ctx context.Context, t Target, addr string) (net.Conn, error) {
	if addr == "" {
		return nil, &DialError{t, t.refusal()}
	}
	c, err := dialReal(ctx, addr)
	if err != nil {
		return nil, &DialError{t, err}
	}
	return &conn{c, t}, nil
}
