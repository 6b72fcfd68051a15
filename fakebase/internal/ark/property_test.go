package ark

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// allowed are the steps that a biz may take, whatever happens (protocol 5.1, 5.2).
var allowed = map[State]map[State]bool{
	Unresolved:  {Resolved: true},
	Resolved:    {Activated: true, Deactivated: true, Broken: true},
	Activated:   {Deactivated: true},
	Deactivated: {Activated: true, Stopped: true, Broken: true},
	Broken:      {Stopped: true, Broken: true, Unresolved: true},
}

// TestInvariants runs any sequence of steps: no biz takes a forbidden step,
// unless all versions may be active at most one of a name is, a name whose
// active version is replaced is never without one, and the listed state is that of
// the last record.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{
			Activation:      rapid.SampledFrom([]Activation{ActivateDefault, ActivateNewModule, ActivateMulti}).Draw(t, "activation"),
			KeepFailed:      rapid.Bool().Draw(t, "keepFailed"),
			KeepUnstoppable: rapid.Bool().Draw(t, "keepUnstoppable"),
		}
		now := epoch
		states := map[string]State{}
		opts.Observe = func(c Change) {
			id := ID(c.Name, c.Version)
			from, known := states[id]
			if !known {
				from = Unresolved
			}
			if from != c.From || !allowed[c.From][c.To] {
				t.Fatalf("%s went from %s (known as %s) to %s", id, c.From, from, c.To)
			}
			if c.To == Stopped || c.To == Unresolved {
				delete(states, id)
			} else {
				states[id] = c.To
			}
		}
		c := NewContainer(opts)
		pick := func(t *rapid.T) (Spec, string) {
			s := spec(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "version"))
			now = now.Add(time.Millisecond)
			return s, s.ID()
		}
		// A refused step is part of the game: TestRefusals checks that it changes nothing.
		t.Repeat(map[string]func(*rapid.T){
			"register":  func(t *rapid.T) { s, _ := pick(t); _ = c.Register(s, Hot, now) },
			"started":   func(t *rapid.T) { _, id := pick(t); _ = c.Started(id, now) },
			"startFail": func(t *rapid.T) { _, id := pick(t); _ = c.StartFailed(id, "trace", now) },
			"stopping":  func(t *rapid.T) { _, id := pick(t); _ = c.Stopping(id, now) },
			"stopped":   func(t *rapid.T) { _, id := pick(t); _ = c.Stopped(id, now) },
			"stopFail":  func(t *rapid.T) { _, id := pick(t); _ = c.StopFailed(id, now) },
			"switch": func(t *rapid.T) {
				s, id := pick(t)
				if c.Switch(id, now) == nil {
					if b, _ := c.Get(id); b.State != Activated {
						t.Fatalf("switched to %s, which is %s", id, b.State)
					}
					if c.active(s.Name) == nil {
						t.Fatalf("no version of %s is active after a switch", s.Name)
					}
				}
			},
			"": func(t *rapid.T) {
				active := map[string]int{}
				for _, b := range c.List() {
					if b.State == Activated {
						active[b.Name]++
					}
					if last := b.Records[len(b.Records)-1]; last.State != b.State || states[b.ID()] != b.State {
						t.Fatalf("%s is %s, its last record %s, observed %s", b.ID(), b.State, last.State, states[b.ID()])
					}
					if b.State == Unresolved || b.State == Stopped {
						t.Fatalf("%s is listed in state %s", b.ID(), b.State)
					}
				}
				if len(states) != c.Len() {
					t.Fatalf("%d biz observed, %d listed", len(states), c.Len())
				}
				for name, n := range active {
					if n > 1 && opts.Activation != ActivateMulti {
						t.Fatalf("%d active versions of %s", n, name)
					}
				}
			},
		})
	})
}
