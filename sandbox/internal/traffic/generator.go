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

// ErrNoStream is returned, wrapped, for a stream that was never started.
var ErrNoStream = errors.New("no such stream")

// ErrStreamExists is returned, wrapped, for a second stream of a name.
var ErrStreamExists = errors.New("there is such a stream already")

// errNotRunning is returned by StartStream after the end of Start.
var errNotRunning = errors.New("the traffic generator does not run")

// GeneratorOptions of a Generator.
type GeneratorOptions struct {
	// Gateway picks the endpoints of Services. Required, unless every Spec has an
	// Address.
	Gateway *Gateway
	// Targets are the bases of runs. Required, unless every Spec has an Address.
	Targets Targets
	// Lost is told of lost requests, the first MaxLost of each stream, from many
	// goroutines at a time. Default: nothing is reported.
	Lost func(LostRequest)
}

// Generator has the streams of all runs, by group. All methods may be called
// concurrently.
type Generator struct {
	o       GeneratorOptions
	started chan struct{} // closed when Start runs

	mu     sync.Mutex
	launch func(plan, func(context.Context) Record, func(Record)) *stream // nil while Start does not run
	groups map[string]map[string]*stream
	order  map[string][]string // names in order of their start
	wg     sync.WaitGroup
}

// NewGenerator returns a Generator without streams.
func NewGenerator(o GeneratorOptions) *Generator {
	return &Generator{o: o, started: make(chan struct{}), groups: map[string]map[string]*stream{},
		order: map[string][]string{}}
}

// Start lets streams run until ctx ends, which cuts all of them off, and returns
// when they have ended. It measures delays of the machine meanwhile. It can be called once.
func (g *Generator) Start(ctx context.Context) error {
	g.mu.Lock()
	g.launch = func(p plan, do func(context.Context) Record, lost func(Record)) *stream {
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

// settleTime is how long a stream waits for the first endpoint of its Service.
const settleTime = 2 * time.Second

// StartStream starts a stream of a group. It waits for Start, and until the gateway knows the Services. Via bases, it waits
// until each base listens. Via a Service, it waits up to 2 s for the first endpoint or answer, because a Pod becomes
// Ready before its Service has its endpoint. Names are unique in a group, including stopped streams.
func (g *Generator) StartStream(ctx context.Context, group string, spec Spec) error {
	return g.StartStreamWith(ctx, group, spec, nil)
}

// StartStreamWith starts a stream with the targets of first, which SetTargets replaces later. It does not wait for them. If first is
// nil, it is StartStream.
func (g *Generator) StartStreamWith(ctx context.Context, group string, spec Spec, first *TargetSet) error {
	var told *choices
	if first != nil {
		told = &choices{choice: *first}
	}
	p, err := spec.plan()
	if err != nil {
		return err
	}
	spec = p.Spec
	picks, dial := g.ways(group, &p, told)
	r := newRequester(group, p, picks, dial)
	err = g.settle(ctx, r, told)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("starting traffic %q: %w", spec.Name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.launch == nil:
		return fmt.Errorf("starting traffic %q: %w", spec.Name, errNotRunning)
	case g.groups[group][spec.Name] != nil:
		return fmt.Errorf("starting traffic %q: %w", spec.Name, ErrStreamExists)
	}
	if g.groups[group] == nil {
		g.groups[group] = map[string]*stream{}
	}
	var lost func(Record)
	if g.o.Lost != nil {
		lost = func(r Record) { g.o.Lost(LostRequest{group, spec.Name, p.Route(), spec.Module, r}) }
	}
	s := g.launch(p, r.do, lost)
	s.told = told
	g.groups[group][spec.Name] = s
	g.order[group] = append(g.order[group], spec.Name)
	g.wg.Go(func() {
		<-s.done
		r.close()
	})
	return nil
}

// settle waits for what a stream needs, and for its first endpoint.
func (g *Generator) settle(ctx context.Context, r *requester, told *choices) error {
	p := r.spec
	select {
	case <-g.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case told != nil:
	case p.Route() == RouteBases:
		g.o.Targets.Group(r.group) // a base begins to listen when it is first asked where
	case p.Route() == RouteKubeProxy:
		settling, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		r.reach(settling)
	case p.Route() == RouteGateway:
		return g.o.Gateway.WaitForEndpoint(ctx, Route{Namespace: p.Namespace, Service: p.Service, Port: p.Port})
	}
	return nil
}

// ways says where each request of a stream goes, and each connection that is kept.
func (g *Generator) ways(group string, p *plan, told *choices) (func() (Target, error),
	func(context.Context) (net.Conn, error)) {
	var draw func(n int) int
	if p.Seed != 0 {
		draw = rand.New(rand.NewPCG(p.Seed, 0)).IntN
	}
	switch {
	case p.Route() == RouteBases:
		turn, all := &turn{names: p.Bases}, func() []Target { return g.o.Targets.Group(group) }
		if told != nil {
			all = told.targets
		}
		return func() (Target, error) { return turn.next(all()) }, nil
	case p.Route() == RouteKubeProxy:
		service := Target{IP: p.Address, Web: p.Address}
		return func() (Target, error) { return service, nil }, nil
	case told != nil:
		pick := func() (Target, error) { return told.pick(draw) }
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

// turn takes the bases that match one after the other.
type turn struct {
	names []string

	mu       sync.Mutex
	all      []Target // that matching was made from
	matching []Target
	n        int
}

func (t *turn) next(all []Target) (Target, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Nobody changes a list: the same one needs no second look.
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

// Summaries counts the streams of a run, in order of their start.
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
	return nil, fmt.Errorf("traffic %q: %w", name, ErrNoStream)
}

// SetTargets replaces the targets of a stream that StartStreamWith has started. It ignores a stream that does not exist.
func (g *Generator) SetTargets(group, name string, c TargetSet) {
	if s, err := g.find(group, name); err == nil && s.told != nil {
		s.told.set(c)
	}
}

// Stop ends a stream, waits for open requests until ctx ends, and returns the result. A second Stop returns the same.
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
	end := &StreamResult{Summary: s.summary(), Seconds: s.ledger.seconds(), LostRequests: s.ledger.lost()}
	end.BinWidth, end.Bins = s.ledger.bins(time.Duration(len(end.Seconds)) * time.Second)
	return end, nil
}

// Records yields the whole ledger of a stream in the order in which requests were
// due, without those that are open. It may be read while the stream runs.
func (g *Generator) Records(group, name string) (iter.Seq[Record], error) {
	s, err := g.find(group, name)
	if err != nil {
		return nil, err
	}
	return s.ledger.all(), nil
}

// Drop cuts the streams of a run off, waits for their end, and forgets them.
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
