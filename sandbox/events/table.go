package events

import (
	"iter"
	"maps"
	"slices"
)

// Table maps names to values. Values are replaced but never modified, so the results of Get and All stay valid. The
// zero value is an empty table.
type Table[T any] struct{ values map[string]*T }

// Get returns the value with the given name, or nil.
func (t Table[T]) Get(name string) *T { return t.values[name] }

// Len returns the number of values.
func (t Table[T]) Len() int { return len(t.values) }

// All returns an iterator over the values in unspecified order. The table must not change during the iteration.
func (t Table[T]) All() iter.Seq[*T] { return maps.Values(t.values) }

// Names returns the names in sorted order.
func (t Table[T]) Names() []string { return slices.Sorted(maps.Keys(t.values)) }

// put sets the value with the given name. If the value is nil, put deletes the entry.
func (t *Table[T]) put(name string, value *T) {
	if t.values == nil {
		t.values = map[string]*T{}
	}
	if value == nil {
		delete(t.values, name)
	} else {
		t.values[name] = value
	}
}
