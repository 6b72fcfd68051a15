package mqtt

import (
	"context"
	"strconv"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// echoEvery is how often the controller sends a message to itself.
	echoEvery = time.Second
	// echoLate is the age of the oldest pending echo above which messages are late.
	echoLate = 5 * time.Second
	// echoLost is how long messages are treated as lost after a lost echo.
	echoLost = 10 * time.Second
	// mostEchoes is the maximum number of pending echoes.
	mostEchoes = 1000
)

// echo measures the delay of messages through the broker, by messages that the controller sends to itself. A broker
// delays and at last drops messages for a slow client, which the connection does not show. If no echo ever returns,
// because the broker does not permit it, nothing is measured. Its methods may be called concurrently.
type echo struct {
	mu   sync.Mutex
	came bool        // one has come back, over any connection
	sent []time.Time // those on their way, the oldest first
	last int         // the number of the last of them
	lost time.Time   // when it showed that one was
}

// anew returns the echo of the next connection, without pending ones.
func (e *echo) anew() *echo {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &echo{came: e.came, last: e.last}
}

// next adds a pending echo and returns its number.
func (e *echo) next(now time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.sent = append(e.sent, now)
	e.sent = e.sent[max(0, len(e.sent)-mostEchoes):]
	return e.last
}

// back removes a pending echo. The broker keeps the order, so older pending ones are lost.
func (e *echo) back(number int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := number - (e.last - len(e.sent)) - 1 // older ones on their way
	if before < 0 || number > e.last {
		return // of another connection, or of another process of this name
	}
	if e.came && before > 0 {
		e.lost = now
	}
	e.came, e.sent = true, e.sent[before+1:]
}

// behind reports whether messages are late or lost.
func (e *echo) behind(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.came {
		return false
	}
	return len(e.sent) > 0 && now.Sub(e.sent[0]) > echoLate || !e.lost.IsZero() && now.Sub(e.lost) < echoLost
}

// Delayed reports whether messages of bases arrive late or are lost, because this controller or the broker is
// overloaded.
func (t *Tunnel) Delayed() bool { return t.echo.Load().behind(time.Now()) }

// echoes sends a message to this process every second until ctx ends.
func (t *Tunnel) echoes(ctx context.Context, client paho.Client, e *echo) {
	tick := time.NewTicker(echoEvery)
	defer tick.Stop()
	for {
		client.Publish(t.echoTopic(), 1, false, strconv.Itoa(e.next(time.Now()))) // an error shows as a lost echo
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// echoTopic is the topic of a baseline for a base that does not exist: a controller has permission to publish and
// receive it.
func (t *Tunnel) echoTopic() string { return t.prefix + t.self + "/base/baseline" }

// heardItself records an echo when the inbox handles it, as a message of a base.
func (t *Tunnel) heardItself(m paho.Message) {
	number, err := strconv.Atoi(string(m.Payload()))
	if err != nil {
		return
	}
	e := t.echo.Load()
	// without room it is lost, as others are
	t.inbox.put(t.self, len(m.Payload()), func() { e.back(number, time.Now()) })
}
