// Package observers calls functions with values.
package observers

import (
	"slices"
	"sync"
)

// List has functions that are called with each value. All methods may be called concurrently. The zero value is empty.
type List[T any] struct {
	mu        sync.RWMutex
	functions []*func(T)
}

// Add adds a function until remove is called. The function is not called after remove has returned. It must be quick,
// must be safe for concurrent use unless calls of Tell are serialized, and must not call methods of the list.
func (l *List[T]) Add(f func(T)) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.functions = append(l.functions, &f)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.functions = slices.DeleteFunc(l.functions, func(other *func(T)) bool { return other == &f })
	}
}

// Tell calls all functions.
func (l *List[T]) Tell(value T) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, f := range l.functions {
		(*f)(value)
	}
}
