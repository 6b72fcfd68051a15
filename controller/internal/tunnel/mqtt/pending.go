package mqtt

import (
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// behindAfter is the age from which an unacknowledged query prevents the same query from being sent again.
	behindAfter = time.Second
	// lostAfter is the age from which an unacknowledged query is treated as lost.
	lostAfter = 30 * time.Second
)

// queries contains the last query for each topic that was sent over one connection. It prevents repeated queries from
// overloading a slow broker. The methods are safe for concurrent use.
type queries struct {
	mu   sync.Mutex
	sent map[string]sentQuery
}

type sentQuery struct {
	token  paho.Token
	sentAt time.Time
}

// isPending reports whether the last query for a topic is unacknowledged, is older than behindAfter, and is not yet
// treated as lost.
func (q *queries) isPending(topic string, now time.Time) bool {
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
		age := now.Sub(last.sentAt)
		return age >= behindAfter && age < lostAfter
	}
}

// add records a query that was sent to a topic.
func (q *queries) add(topic string, token paho.Token, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent[topic] = sentQuery{token, now}
}
