package controller

import (
	"io"
	"net/http"
	"slices"
	"sync"
)

// robot is a web hook that keeps the messages it gets.
type robot struct {
	mu       sync.Mutex
	messages []string
}

// ServeHTTP takes one message.
func (r *robot) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, string(body))
}

// all are the messages so far.
func (r *robot) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}
