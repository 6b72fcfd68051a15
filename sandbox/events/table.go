package events

import (
	"iter"
	"maps"
	"slices"
)

// Table holds values by name. Values are replaced and never changed, so the results of Get and All stay valid. The zero
// value is an empty table.
type Table[T any] struct{ values map[string]*T }

// Get returns the value of a name, or nil.
func (t Table[T]) Get(name string) *T { return t.values[name] }

// Len returns the number of values.
func (t Table[T]) Len() int { return len(t.values) }

// All returns the values in no order. The table must not change during the iteration.
func (t Table[T]) All() iter.Seq[*T] { return maps.Values(t.values) }

// Names returns the names, sorted.
func (t Table[T]) Names() []string { return slices.Sorted(maps.Keys(t.values)) }

// put sets the value of a name; nil deletes it.
func (t *Table[T]) put(name string, thing *T) {
	if t.values == nil {
		t.values = map[string]*T{}
	}
	if thing == nil {
		delete(t.values, name)
	} else {
		t.values[name] = thing
	}
}
