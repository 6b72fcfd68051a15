package mqtt

import (
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// behindAfter is the time after which a query that the broker has not acknowledged is not sent again.
	behindAfter = time.Second
	// lostAfter is the time after which an unacknowledged query is treated as lost.
	lostAfter = 30 * time.Second
)

// queries contains the last query of each topic over one connection. It prevents repeated queries from overloading a
// slow broker. The methods may be called concurrently.
type queries struct {
	mu   sync.Mutex
	sent map[string]sent
}

type sent struct {
	token paho.Token
	at    time.Time
}

// pending reports whether the broker has not acknowledged the last query of a topic, which is older than behindAfter
// and not treated as lost.
func (q *queries) pending(topic string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, ok := q.sent[topic]
	if !ok {
		return false
	}
	select {
	case <-last.token.Done():
		delete(q.sent, topic)
		return false
	default:
		age := now.Sub(last.at)
		return age >= behindAfter && age < lostAfter
	}
}

// add records a query that was sent.
func (q *queries) add(topic string, token paho.Token, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent[topic] = sent{token, now}
}
