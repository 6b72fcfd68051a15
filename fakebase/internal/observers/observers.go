// Package observers notifies functions of values.
package observers

import (
	"slices"
	"sync"
)

// List is a list of observer functions. Its methods are safe for concurrent use. The zero value is an empty list.
type List[T any] struct {
	mu        sync.RWMutex
	functions []*func(T)
}

// Add adds an observer function, which is called until remove is called. The function is not called after remove has
// returned. It must return quickly and must not call methods of the list. It must be safe for concurrent use unless
// the calls of Notify are serialized.
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

// Notify calls all functions of the list with a value.
func (l *List[T]) Notify(value T) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, f := range l.functions {
		(*f)(value)
	}
}
