package timeline

import (
	"iter"
	"maps"
	"slices"
)

// Table holds things of one kind by name. A thing in it is never changed: a new one takes its
// place, so what Get and All have returned stays as it was. The zero value is empty.
type Table[T any] struct {
	things map[string]*T
	shared bool // with a copy: the next write makes a map of its own
}

// Get returns the thing of a name, or nil.
func (t Table[T]) Get(name string) *T { return t.things[name] }

// Len returns how many things there are.
func (t Table[T]) Len() int { return len(t.things) }

// All returns the things in no order. The State must not change while they are looked at.
func (t Table[T]) All() iter.Seq[*T] { return maps.Values(t.things) }

// Names returns the names, sorted.
func (t Table[T]) Names() []string { return slices.Sorted(maps.Keys(t.things)) }

// put makes a thing that of its name; nil = there is none any more.
func (t *Table[T]) put(name string, thing *T) {
	switch {
	case t.things == nil:
		t.things = map[string]*T{}
	case t.shared:
		t.things = maps.Clone(t.things)
	}
	t.shared = false
	if thing == nil {
		delete(t.things, name)
	} else {
		t.things[name] = thing
	}
}

// copy returns a table with the same things. From now on writes to either leave the other alone.
func (t *Table[T]) copy() Table[T] {
	t.shared = true
	return *t
}
