package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koupleless/koupsandbox/sandbox/internal/graph"
)

// diary notes what happens, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// step takes a second to do, and a second to undo.
func (d *diary) step(name string, needs, gives []graph.Condition) graph.Step {
	act := func(what string) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				d.note(what + name + " given up")
				return context.Cause(ctx)
			}
			d.note(what + name)
			return nil
		}
	}
	return graph.Step{Name: name, Needs: needs, Gives: gives, Run: act(""), Undo: act("undo ")}
}

func do(ctx context.Context, s graph.Step) error { return s.Run(ctx) }

type conditions = []graph.Condition

func TestStepsOverlapUnlessOneNeedsTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g, began := &diary{}, graph.New(), time.Now()
		err := g.Add(
			d.step("controller", conditions{"api", "broker"}, nil),
			d.step("api", conditions{"etcd"}, conditions{"api"}),
			d.step("etcd", nil, conditions{"etcd"}),
			d.step("broker", nil, conditions{"broker"}),
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context(), do); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the run took %s, three steps deep", took)
		}
		slices.Sort(d.lines[:2]) // both after a second
		if diff := cmp.Diff([]string{"broker", "etcd", "api", "controller"}, d.lines); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		d.lines, began = nil, time.Now()
		if err := g.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the undo took %s, three steps deep", took)
		}
		slices.Sort(d.lines[1:3])
		if diff := cmp.Diff([]string{"undo controller", "undo api", "undo broker", "undo etcd"}, d.lines); diff != "" {
			t.Errorf("undone (-want +got):\n%s", diff)
		}
	})
}

// What fails in the middle stops the others, and everything that was begun is undone, nothing else.
func TestFailureInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New()
		broken := d.step("api", conditions{"etcd"}, conditions{"api"})
		failure := errors.New("no port")
		broken.Run = func(context.Context) error { return failure }
		slow := d.step("image", nil, nil)
		slow.Run = func(ctx context.Context) error {
			<-ctx.Done()
			d.note("image given up")
			return context.Cause(ctx)
		}
		if err := g.Add(d.step("etcd", nil, conditions{"etcd"}), broken, slow, d.step("controller", conditions{"api"}, nil)); err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context(), do); !errors.Is(err, failure) {
			t.Errorf("the run gave %v", err)
		}
		if err := g.Undo(t.Context()); err != nil {
			t.Error(err)
		}
		slices.Sort(d.lines[2:4]) // api and image, at the same time
		if diff := cmp.Diff([]string{"etcd", "image given up", "undo api", "undo image", "undo etcd"}, d.lines); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
	})
}

// Ctrl-C reaches the step that runs, and its cause is the error.
func TestTheEndOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New()
		if err := g.Add(d.step("first", nil, conditions{"first"}), d.step("second", conditions{"first"}, conditions{"second"}),
			d.step("third", conditions{"second"}, nil)); err != nil {
			t.Fatal(err)
		}
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, interrupted)
		defer cancel()
		if err := g.Run(ctx, do); !errors.Is(err, interrupted) {
			t.Errorf("the run gave %v", err)
		}
		if err := g.Undo(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"first", "second given up", "undo second", "undo first"}, d.lines); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
	})
}

// Whatever a step says that was made to give up, the reason is why.
func TestTheReasonIsNotWhatGivesUp(t *testing.T) {
	g := graph.New()
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := g.Add(graph.Step{Run: func(ctx context.Context) error {
		cancel(interrupted)
		<-ctx.Done()
		return errors.New("the fleet does not run")
	}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Run(ctx, do); !errors.Is(err, interrupted) {
		t.Errorf("the run gave %v", err)
	}
}

// Undo tries everything and tells all that went wrong.
func TestUndoGoesOn(t *testing.T) {
	g := graph.New()
	one, two := errors.New("one stays"), errors.New("two stays")
	nothing := func(context.Context) error { return nil }
	if err := g.Add(graph.Step{Gives: conditions{"one"}, Run: nothing, Undo: func(context.Context) error { return one }},
		graph.Step{Needs: conditions{"one"}, Run: nothing, Undo: func(context.Context) error { return two }}); err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context(), do); err != nil {
		t.Fatal(err)
	}
	if err := g.Undo(t.Context()); !errors.Is(err, one) || !errors.Is(err, two) {
		t.Errorf("undo gave %v", err)
	}
}

// A step may add others, which run at once, and may need what is there.
func TestAStepAddsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New()
		adder := graph.Step{Name: "adder", Needs: conditions{"api"}, Run: func(context.Context) error {
			d.note("adder")
			return g.Add(d.step("nodes", conditions{"bases", "api"}, nil), d.step("bases", nil, conditions{"bases"}))
		}}
		if err := g.Add(adder, d.step("api", nil, conditions{"api"})); err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context(), do); err != nil {
			t.Fatal(err)
		}
		if err := g.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Undoing bases and api needs nodes to be undone first.
		slices.Sort(d.lines[5:])
		if diff := cmp.Diff([]string{"api", "adder", "bases", "nodes", "undo nodes", "undo api", "undo bases"}, d.lines); diff != "" {
			t.Errorf("what happened (-want +got):\n%s", diff)
		}
	})
}

func TestAddRefuses(t *testing.T) {
	for want, steps := range map[string][]graph.Step{
		`step "a" needs "b", which no step gives`: {{Name: "a", Needs: conditions{"b"}}},
		`two steps give "a"`:                      {{Gives: conditions{"a"}}, {Gives: conditions{"a"}}},
		`needs what it leads to`:                  {{Name: "a", Needs: conditions{"b"}, Gives: conditions{"a"}}, {Name: "b", Needs: conditions{"a"}, Gives: conditions{"b"}}},
	} {
		g := graph.New()
		if err := g.Add(steps...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		ran := false
		if err := g.Add(graph.Step{Run: func(context.Context) error { ran = true; return nil }}); err != nil {
			t.Error(err)
		}
		if err := g.Run(t.Context(), do); err != nil || !ran {
			t.Errorf("what was refused is still there: %v", err)
		}
	}
}

func TestServiceLivesUntilUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ended := graph.New(), make(chan error, 1)
		failure := errors.New("cut")
		alive := false
		s := graph.Service(graph.Step{}, func(ctx context.Context) error {
			alive = true
			<-ctx.Done()
			alive = false
			return failure
		}, func(err error) { ended <- err })
		if err := g.Add(s); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := g.Run(ctx, do); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if !alive {
			t.Error("the service ended with the run")
		}
		if err := g.Undo(t.Context()); err != nil || alive || !errors.Is(<-ended, failure) {
			t.Errorf("undo: %v; it goes on: %t", err, alive)
		}
	})
}

func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &diary{}, graph.New()
		if err := g.Add(graph.Chain(d.step("one", nil, nil), d.step("two", nil, conditions{"half"}), d.step("three", nil, nil))...); err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context(), do); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"one", "two", "three"}, d.lines); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

// Whatever the graph: a step begins after those that it needs are done, is undone before them, and
// what was begun is undone, once.
func TestOrderOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		count := rapid.IntRange(1, 12).Draw(r, "steps")
		failing := rapid.IntRange(-1, count-1).Draw(r, "failing")
		g, d := graph.New(), &diary{}
		needs := make([][]int, count)
		name := func(i int) graph.Condition { return graph.Condition(rune('a' + i)) }
		steps := make([]graph.Step, count)
		for i := range count {
			steps[i] = graph.Step{Gives: conditions{name(i)}}
			for j := range i {
				if rapid.Bool().Draw(r, "needs") {
					needs[i] = append(needs[i], j)
					steps[i].Needs = append(steps[i].Needs, name(j))
				}
			}
			steps[i].Run = func(context.Context) error {
				d.note("begin " + string(name(i)))
				if i == failing {
					return errors.New("broken")
				}
				d.note("done " + string(name(i)))
				return nil
			}
			steps[i].Undo = func(context.Context) error { d.note("undo " + string(name(i))); return nil }
		}
		if err := g.Add(steps...); err != nil {
			r.Fatal(err)
		}
		if err := g.Run(context.Background(), do); (err != nil) != (failing >= 0) {
			r.Fatalf("step %d fails, and the run gave %v", failing, err)
		}
		if err := g.Undo(context.Background()); err != nil {
			r.Fatal(err)
		}
		at := map[string]int{}
		for i, line := range d.lines {
			if _, twice := at[line]; twice {
				r.Fatalf("%q twice: %q", line, d.lines)
			}
			at[line] = i
		}
		for i := range count {
			_, begun := at["begin "+string(name(i))]
			if _, undone := at["undo "+string(name(i))]; begun != undone {
				r.Fatalf("step %d begun %t, undone %t", i, begun, undone)
			}
			for _, j := range needs[i] {
				if begun && at["done "+string(name(j))] > at["begin "+string(name(i))] {
					r.Fatalf("step %d began before %d was done: %q", i, j, d.lines)
				}
				if begun && at["undo "+string(name(j))] < at["undo "+string(name(i))] {
					r.Fatalf("step %d was undone before %d: %q", j, i, d.lines)
				}
			}
		}
	})
}
