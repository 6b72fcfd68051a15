package mqtt

import (
	"context"
	"strconv"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// echoInterval is the time between two echoes, which are messages that the controller sends to itself.
	echoInterval = time.Second
	// echoLate is the age of the oldest pending echo above which messages are treated as late.
	echoLate = 5 * time.Second
	// echoLost is how long messages from bases are assumed to be lost after an echo was lost.
	echoLost = 10 * time.Second
	// maxEchoes is the maximum number of pending echoes.
	maxEchoes = 1000
)

// echo measures the delay of messages through the broker with messages that the controller sends to itself. A broker
// delays and finally drops the messages for a slow client, without closing the connection. If no echo ever returns,
// because the broker does not permit it, messages are not treated as late. The methods are safe for concurrent use.
type echo struct {
	mu         sync.Mutex
	received   bool        // at least one echo has returned, over any connection
	sent       []time.Time // send times of the pending echoes, the oldest first
	last       int         // number of the last echo
	lastLossAt time.Time   // when the loss of an echo was last detected
}

// forNextConnection returns a new echo for the next connection, which continues the numbering but has no pending
// echoes.
func (e *echo) forNextConnection() *echo {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &echo{received: e.received, last: e.last}
}

// next adds a pending echo and returns its number.
func (e *echo) next(now time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.sent = append(e.sent, now)
	e.sent = e.sent[max(0, len(e.sent)-maxEchoes):]
	return e.last
}

// returned records that an echo has returned. The broker keeps the order of messages, so older pending echoes are
// lost.
func (e *echo) returned(number int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := number - (e.last - len(e.sent)) - 1 // older pending echoes
	if before < 0 || number > e.last {
		return // an echo of another connection
	}
	if e.received && before > 0 {
		e.lastLossAt = now
	}
	e.received, e.sent = true, e.sent[before+1:]
}

// delayed reports whether echoes show that messages are late or lost.
func (e *echo) delayed(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.received {
		return false
	}
	return len(e.sent) > 0 && now.Sub(e.sent[0]) > echoLate || !e.lastLossAt.IsZero() &&
		now.Sub(e.lastLossAt) < echoLost
}

// Delayed reports whether messages from bases arrive late or are lost because this controller or the broker is
// overloaded.
func (t *Tunnel) Delayed() bool { return t.echo.Load().delayed(time.Now()) }

// echoes sends an echo, a message to this process, every second until ctx is done.
func (t *Tunnel) echoes(ctx context.Context, client paho.Client, e *echo) {
	tick := time.NewTicker(echoInterval)
	defer tick.Stop()
	for {
		client.Publish(t.echoTopic(), 1, false, strconv.Itoa(e.next(time.Now()))) // after an error, the echo is lost
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// echoTopic returns the topic of echoes. It is the baseline topic of a base that does not exist, because brokers
// allow controllers to publish and receive baselines.
func (t *Tunnel) echoTopic() string { return t.prefix + t.self + "/base/baseline" }

// handleEcho queues an echo in the inbox like a message from a base, so that the measured delay includes the inbox.
func (t *Tunnel) handleEcho(m paho.Message) {
	number, err := strconv.Atoi(string(m.Payload()))
	if err != nil {
		return
	}
	e := t.echo.Load()
	// The echo is lost if the inbox is full, like a message of a base.
	t.inbox.put(t.self, len(m.Payload()), func() { e.returned(number, time.Now()) })
}
