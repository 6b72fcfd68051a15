package mqtt

import (
	"context"
	"strconv"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

const (
	// echoEvery is how often the controller says something to itself.
	echoEvery = time.Second
	// echoLate is how old the oldest echo on its way is when what bases say comes late. A base that speaks every
	// 10 s is then not silent for 25 s by that alone.
	echoLate = 5 * time.Second
	// echoLost is for how long messages count as lost after one echo was: half of them lost show within it, but
	// in one case of a thousand.
	echoLost = 10 * time.Second
	// mostEchoes is of how many on their way is known when they went out.
	mostEchoes = 1000
)

// echo is what a controller says to itself through the broker, as messages of bases come, to know how late it
// hears them. A broker holds back, and at last drops, what a client does not read in time; neither shows on the
// connection. Echoes that never came back, as where the broker does not let them through, tell nothing. It may be
// used concurrently.
type echo struct {
	mu   sync.Mutex
	came bool        // one has come back, over any connection
	sent []time.Time // those on their way, the oldest first
	last int         // the number of the last of them
	lost time.Time   // when it showed that one was
}

// anew returns the echo of the next connection: over it nothing is on its way yet.
func (e *echo) anew() *echo {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &echo{came: e.came, last: e.last}
}

// next notes that one goes out, and returns its number.
func (e *echo) next(now time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	e.sent = append(e.sent, now)
	e.sent = e.sent[max(0, len(e.sent)-mostEchoes):]
	return e.last
}

// back notes that one came back. A broker keeps the order: those before it, that did not, are lost.
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

// behind says whether what bases say comes late, or is lost.
func (e *echo) behind(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.came {
		return false
	}
	return len(e.sent) > 0 && now.Sub(e.sent[0]) > echoLate || !e.lost.IsZero() && now.Sub(e.lost) < echoLost
}

// Behind says whether this controller hears what bases say much later than they say it, or not at all, because
// it or the broker has too much to do. Their silence then tells nothing. It is false before it can be known.
func (t *Tunnel) Behind() bool { return t.echo.Load().behind(time.Now()) }

// echoes says something to itself again and again, until ctx ends; when the connection takes nothing it ends a
// little later.
func (t *Tunnel) echoes(ctx context.Context, client paho.Client, e *echo) {
	tick := time.NewTicker(echoEvery)
	defer tick.Stop()
	for {
		client.Publish(t.echoTopic(), 1, false, strconv.Itoa(e.next(time.Now()))) // one that is not sent is not heard
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// echoTopic is that of a baseline for a base that cannot be: a controller may publish it, and hears it, whatever
// topics the broker allows it. Bases do not hear it, and other controllers take no notice.
func (t *Tunnel) echoTopic() string { return t.prefix + t.self + "/base/baseline" }

// heardItself notes an echo when it is its turn, as a message of a base.
func (t *Tunnel) heardItself(m paho.Message) {
	number, err := strconv.Atoi(string(m.Payload()))
	if err != nil {
		return
	}
	e := t.echo.Load()
	t.inbox.put(t.self, len(m.Payload()), func() { e.back(number, time.Now()) }) // without room it is lost, as others are
}
