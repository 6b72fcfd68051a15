package agent

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// queue keeps lost requests until somebody reads them. Whoever loses one never
// waits; a stream tells no more than traffic.MaxLost.
type queue struct {
	mu      sync.Mutex
	waiting []traffic.LostRequest
	pushed  int
	more    chan struct{} // has room for one
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1)} }

func (q *queue) push(l traffic.LostRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, l)
	q.pushed++
	select {
	case q.more <- struct{}{}:
	default: // it will be looked for
	}
}

// told is how many there have been.
func (q *queue) told() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pushed
}

// tell writes each lost request as a line, at once, until nobody reads any more.
func (q *queue) tell(w http.ResponseWriter, r *http.Request) {
	flush, lines := http.NewResponseController(w), json.NewEncoder(w)
	for {
		if flush.Flush() != nil {
			return
		}
		select {
		case <-q.more:
		case <-r.Context().Done():
			return
		}
		q.mu.Lock()
		fresh := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		for _, l := range fresh {
			if lines.Encode(l) != nil {
				return
			}
		}
	}
}
