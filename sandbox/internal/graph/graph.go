package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Condition is something that holds once a step is done, such as "the API answers".
type Condition string

// Step is one part of a bring-up.
type Step struct {
	// Name for people, such as "Starting etcd". Empty for a step that is not shown.
	Name string
	// Needs are the conditions that hold before Run is called. None = it runs at once.
	Needs []Condition
	// Gives are the conditions that hold when Run has returned nil. No two steps give the same.
	Gives []Condition
	// Run does it, and blocks until it is done or ctx ends. nil = nothing to do.
	Run func(ctx context.Context) error
	// Undo takes back what Run has done, or has begun to do when it failed. It is called once, after
	// the Undo of every step that needs what this one gives. nil = nothing to take back.
	Undo func(ctx context.Context) error
}

// Graph is a set of steps. Add may be called concurrently, by steps that run too. Run is called once,
// and Undo once after it.
type Graph struct {
	mu      sync.Mutex
	nodes   []*node
	givers  map[Condition]*node
	started func(*node) // starts a node in the run that goes on; nil before Run and after it
}

type node struct {
	Step
	needs []*node
	begun bool          // Graph.mu guards it
	done  chan struct{} // closed when Run has returned nil
	gone  chan struct{} // closed when Undo has returned
}

// New returns a graph without steps.
func New() *Graph { return &Graph{givers: map[Condition]*node{}} }

// Add adds steps. While Run goes on they begin as soon as what they need holds. A step may need
// what the same call, or an earlier one, adds. The error names a condition that nobody gives, or
// that two steps give; then nothing was added.
func (g *Graph) Add(steps ...Step) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	added := make([]*node, len(steps))
	givers := map[Condition]*node{}
	for i, s := range steps {
		added[i] = &node{Step: s, done: make(chan struct{}), gone: make(chan struct{})}
		for _, c := range s.Gives {
			if g.givers[c] != nil || givers[c] != nil {
				return fmt.Errorf("two steps give %q", c)
			}
			givers[c] = added[i]
		}
	}
	for _, n := range added {
		for _, c := range n.Needs {
			giver := givers[c]
			if giver == nil {
				giver = g.givers[c]
			}
			if giver == nil {
				return fmt.Errorf("step %q needs %q, which no step gives", n.Name, c)
			}
			n.needs = append(n.needs, giver)
		}
	}
	if n := circle(added); n != nil {
		return fmt.Errorf("step %q needs what it leads to", n.Name)
	}
	for c, n := range givers {
		g.givers[c] = n
	}
	g.nodes = append(g.nodes, added...)
	if g.started != nil {
		for _, n := range added {
			g.started(n)
		}
	}
	return nil
}

// circle returns a node that needs itself, by whatever way, or nil. Steps of earlier calls need
// nothing of later ones, so only those of one call can.
func circle(added []*node) *node {
	const visiting, visited = 1, 2
	state := map[*node]int{}
	var visit func(*node) *node
	visit = func(n *node) *node {
		switch state[n] {
		case visiting:
			return n
		case visited:
			return nil
		}
		state[n] = visiting
		for _, need := range n.needs {
			if found := visit(need); found != nil {
				return found
			}
		}
		state[n] = visited
		return nil
	}
	for _, n := range added {
		if found := visit(n); found != nil {
			return found
		}
	}
	return nil
}

// Run runs every step as soon as what it needs holds, and blocks until all are done. do calls a
// step's Run; it may show the step to somebody, and bound its time. The first step that fails, or
// the end of ctx, cancels the context of all others: those that run give up, and no other begins.
// Run then waits for them and returns that step's error, or the cause with which ctx ended: what a
// step says that was made to give up is not the reason.
func (g *Graph) Run(ctx context.Context, do func(context.Context, Step) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	start := func(n *node) {
		running.Go(func() {
			for _, need := range n.needs {
				select {
				case <-need.done:
				case <-ctx.Done():
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
			g.mu.Lock()
			n.begun = true
			g.mu.Unlock()
			if n.Run != nil {
				if err := do(ctx, n.Step); err != nil {
					cancel(err) // counts if it is the first
					return
				}
			}
			close(n.done)
		})
	}
	g.mu.Lock()
	g.started = start
	for _, n := range g.nodes {
		start(n)
	}
	g.mu.Unlock()
	running.Wait() // a step that adds others runs itself meanwhile, so the count does not reach zero before
	g.mu.Lock()
	g.started = nil
	g.mu.Unlock()
	return context.Cause(ctx)
}

// Undo takes back every step that has begun, each after those that needed what it gives, others at
// the same time, and blocks until all are taken back. Every step is tried; the errors are joined in
// the order in which the steps were added.
func (g *Graph) Undo(ctx context.Context) error {
	g.mu.Lock()
	nodes := slices.Clone(g.nodes)
	g.mu.Unlock()
	dependents := map[*node][]*node{}
	for _, n := range nodes {
		for _, need := range n.needs {
			dependents[need] = append(dependents[need], n)
		}
	}
	errs := make([]error, len(nodes))
	var undoing sync.WaitGroup
	for i, n := range nodes {
		undoing.Go(func() {
			defer close(n.gone)
			for _, d := range dependents[n] {
				<-d.gone
			}
			if n.begun && n.Undo != nil {
				errs[i] = n.Undo(ctx)
			}
		})
	}
	undoing.Wait()
	return errors.Join(errs...)
}
