package traffic

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// ErrNoStream is wrapped in the error for a stream that does not exist.
var ErrNoStream = errors.New("no such stream")

// ErrStreamExists is wrapped in the error for a new stream whose name already exists in the group.
var ErrStreamExists = errors.New("a stream with this name already exists")

// errNotRunning is returned by StartStream after Start has returned.
var errNotRunning = errors.New("the traffic generator is not running")

// GeneratorOptions configures a Generator.
type GeneratorOptions struct {
	// Gateway selects the endpoints of Services. Required, unless the Spec of every stream has an Address.
	Gateway *Gateway
	// Targets finds the bases of a group. Required, unless the Spec of every stream has an Address.
	Targets Targets
	// Lost is called concurrently for lost requests, at most MaxLost of each stream. Default: lost requests are
	// counted, but not reported.
	Lost func(LostRequest)
}

// Generator runs the streams of all groups. All methods may be called concurrently.
type Generator struct {
	o       GeneratorOptions
	started chan struct{} // closed when Start is called

	mu     sync.Mutex
	launch func(resolvedSpec, func(context.Context) Record, func(Record)) *stream // nil while Start is not running
	groups map[string]map[string]*stream
	order  map[string][]string // stream names in the order in which the streams started
	wg     sync.WaitGroup
}

// NewGenerator returns a Generator without streams.
func NewGenerator(o GeneratorOptions) *Generator {
	return &Generator{o: o, started: make(chan struct{}), groups: map[string]map[string]*stream{},
		order: map[string][]string{}}
}

// Start runs streams and blocks until ctx ends. It then cancels all streams and returns when they have ended. While
// streams run, it also measures the delays that this machine causes. Call Start once.
func (g *Generator) Start(ctx context.Context) error {
	g.mu.Lock()
	g.launch = func(p resolvedSpec, do func(context.Context) Record, lost func(Record)) *stream {
		return newStream(ctx, p, do, lost)
	}
	g.mu.Unlock()
	close(g.started)
	err := g.measureDelays(ctx)
	<-ctx.Done()
	g.mu.Lock()
	g.launch = nil
	g.mu.Unlock()
	g.wg.Wait()
	return err
}

// endpointTimeout is how long the start of a stream waits for the first endpoint of its Service.
const endpointTimeout = 2 * time.Second

// StartStream starts a stream of a group. It blocks until Start is running and, for a Service, the gateway has listed
// the Services. With via: bases, it also blocks until each base listens. With via: service, it waits up to 2 s for
// the first endpoint or response, because a Pod becomes Ready shortly before its Service has the endpoint. The stream
// name must be unique in the group, even among stopped streams.
func (g *Generator) StartStream(ctx context.Context, group string, spec Spec) error {
	return g.StartStreamWith(ctx, group, spec, nil)
}

// StartStreamWith starts a stream that sends its requests to the targets in first. SetTargets can replace the targets
// later. StartStreamWith does not wait for endpoints. If first is nil, it is the same as StartStream.
func (g *Generator) StartStreamWith(ctx context.Context, group string, spec Spec, first *TargetSet) error {
	var pushed *pushedTargets
	if first != nil {
		pushed = &pushedTargets{targetSet: *first}
	}
	p, err := spec.resolve()
	if err != nil {
		return err
	}
	spec = p.Spec
	pick, dial := g.routing(group, &p, pushed)
	r := newRequester(group, p, pick, dial)
	err = g.waitReady(ctx, r, pushed)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("starting stream %q: %w", spec.Name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.launch == nil:
		return fmt.Errorf("starting stream %q: %w", spec.Name, errNotRunning)
	case g.groups[group][spec.Name] != nil:
		return fmt.Errorf("starting stream %q: %w", spec.Name, ErrStreamExists)
	}
	if g.groups[group] == nil {
		g.groups[group] = map[string]*stream{}
	}
	var lost func(Record)
	if g.o.Lost != nil {
		lost = func(r Record) { g.o.Lost(LostRequest{group, spec.Name, p.Route(), spec.Module, r}) }
	}
	s := g.launch(p, r.do, lost)
	s.pushed = pushed
	g.groups[group][spec.Name] = s
	g.order[group] = append(g.order[group], spec.Name)
	g.wg.Go(func() {
		<-s.done
		r.close()
	})
	return nil
}

// waitReady blocks until the stream can send its first request.
func (g *Generator) waitReady(ctx context.Context, r *requester, pushed *pushedTargets) error {
	p := r.spec
	select {
	case <-g.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case pushed != nil:
	case p.Route() == RouteBases:
		g.o.Targets.Group(r.group) // a base starts to listen when its address is requested for the first time
	case p.Route() == RouteKubeProxy:
		settling, cancel := context.WithTimeout(ctx, endpointTimeout)
		defer cancel()
		r.waitReachable(settling)
	case p.Route() == RouteGateway:
		return g.o.Gateway.WaitForEndpoint(ctx, Route{Namespace: p.Namespace, Service: p.Service, Port: p.Port})
	}
	return nil
}

// routing returns two functions. The first selects the target of a request. The second opens a connection to a newly
// selected target; it is used for connections that several requests share. The second function is nil if the stream
// cannot share connections between targets.
func (g *Generator) routing(group string, p *resolvedSpec, pushed *pushedTargets) (func() (Target, error),
	func(context.Context) (net.Conn, error)) {
	var draw func(n int) int
	if p.Seed != 0 {
		draw = rand.New(rand.NewPCG(p.Seed, 0)).IntN
	}
	switch {
	case p.Route() == RouteBases:
		bases, all := &roundRobin{names: p.Bases}, func() []Target { return g.o.Targets.Group(group) }
		if pushed != nil {
			all = pushed.targets
		}
		return func() (Target, error) { return bases.next(all()) }, nil
	case p.Route() == RouteKubeProxy:
		service := Target{IP: p.Address, Web: p.Address}
		return func() (Target, error) { return service, nil }, nil
	case pushed != nil:
		pick := func() (Target, error) { return pushed.pick(draw) }
		return pick, func(ctx context.Context) (net.Conn, error) {
			t, err := pick()
			if err != nil {
				return nil, err
			}
			return connect(ctx, t, t.Web)
		}
	}
	route := Route{Namespace: p.Namespace, Service: p.Service, Port: p.Port, Client: group + "/" + p.Name, draw: draw}
	return func() (Target, error) { return g.o.Gateway.Pick(route) },
		func(ctx context.Context) (net.Conn, error) { return g.o.Gateway.Dial(ctx, route) }
}

// roundRobin selects the matching bases in turn.
type roundRobin struct {
	names []string

	mu       sync.Mutex
	all      []Target // list of bases from which matching was derived
	matching []Target
	n        int
}

func (t *roundRobin) next(all []Target) (Target, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Lists are immutable, so the same slice needs no second comparison.
	if len(all) != len(t.all) || len(all) > 0 && &all[0] != &t.all[0] {
		t.all, t.matching = all, nil
		for _, b := range all {
			if matches(t.names, b.Base) {
				t.matching = append(t.matching, b)
			}
		}
	}
	if len(t.matching) == 0 {
		return Target{}, fmt.Errorf("%w: no base matches", ErrNoEndpoint)
	}
	t.n++
	return t.matching[(t.n-1)%len(t.matching)], nil
}

// Summaries returns the summaries of the streams of a group in the order in which the streams started.
func (g *Generator) Summaries(group string) []Summary {
	out := []Summary{}
	for _, s := range g.streams(group) {
		out = append(out, s.summary())
	}
	return out
}

func (g *Generator) streams(group string) []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*stream
	for _, name := range g.order[group] {
		out = append(out, g.groups[group][name])
	}
	return out
}

func (g *Generator) find(group, name string) (*stream, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[group][name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("stream %q: %w", name, ErrNoStream)
}

// SetTargets replaces the targets of a stream that was started with StartStreamWith. It ignores unknown streams.
func (g *Generator) SetTargets(group, name string, c TargetSet) {
	if s, err := g.find(group, name); err == nil && s.pushed != nil {
		s.pushed.set(c)
	}
}

// Stop stops a stream and returns its result. It blocks until the in-flight requests have completed, or ctx ends. It
// may be called more than once.
func (g *Generator) Stop(ctx context.Context, group, name string) (*StreamResult, error) {
	s, err := g.find(group, name)
	if err != nil {
		return nil, err
	}
	s.stop()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	end := &StreamResult{Summary: s.summary(), Seconds: s.log.seconds(), LostRequests: s.log.lost()}
	end.BinWidth, end.Bins = s.log.bins(time.Duration(len(end.Seconds)) * time.Second)
	return end, nil
}

// Records returns the request log of a stream, in the order in which the requests were due. In-flight requests are
// omitted. Records may be called while the stream is running.
func (g *Generator) Records(group, name string) (iter.Seq[Record], error) {
	s, err := g.find(group, name)
	if err != nil {
		return nil, err
	}
	return s.log.all(), nil
}

// Drop cancels the streams of a group and removes them. It blocks until they have ended.
func (g *Generator) Drop(group string) {
	streams := g.streams(group)
	g.mu.Lock()
	delete(g.groups, group)
	delete(g.order, group)
	g.mu.Unlock()
	for _, s := range streams {
		s.cut()
	}
	for _, s := range streams {
		<-s.done
	}
}
