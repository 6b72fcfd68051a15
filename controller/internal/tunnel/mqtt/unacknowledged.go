package mqtt

import (
	"errors"
	"fmt"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// errBehind says that a command was not sent because too many before it are on their way.
var errBehind = errors.New("the MQTT broker is behind with what it was sent")

// Bounds of what is on its way to a broker that is behind.
const (
	// mostUnacknowledged is how many messages the broker may have to acknowledge yet. Towards MQTT's own limit
	// of 65,535 the library looks through all of them for each message, and acknowledgements wait meanwhile.
	mostUnacknowledged = 32_768
	// behindAfter is from when on a question that is not acknowledged is not asked again: it is on its way.
	behindAfter = time.Second
	// lostAfter is from when on nobody waits for an acknowledgement: the broker may have lost it.
	lostAfter = 30 * time.Second
)

// unacknowledged is what was sent over one connection and is not acknowledged. Questions are asked again and
// again while no answer comes: without a bound, one moment in which the broker is behind would become all
// that there is. It may be used concurrently.
type unacknowledged struct {
	mu        sync.Mutex
	messages  []sent          // in the order in which they were; a broker acknowledges in it
	questions map[string]sent // the last of each topic among them
}

type sent struct {
	topic string
	token paho.Token
	at    time.Time
}

func newUnacknowledged() *unacknowledged {
	return &unacknowledged{questions: map[string]sent{}}
}

// admit says whether a message may be sent. It may not if it is a question that is on its way already, and
// fails with errBehind when too much is.
func (u *unacknowledged) admit(topic string, question bool, now time.Time) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.messages) > 0 && u.messages[0].over(now) {
		first := u.messages[0]
		u.messages = u.messages[1:]
		if u.questions[first.topic] == first {
			delete(u.questions, first.topic)
		}
	}
	if last, asked := u.questions[topic]; question && asked && !last.over(now) && now.Sub(last.at) >= behindAfter {
		return false, nil
	}
	if len(u.messages) >= mostUnacknowledged {
		return false, fmt.Errorf("%w: %d messages", errBehind, len(u.messages))
	}
	return true, nil
}

// note notes what was sent.
func (u *unacknowledged) note(topic string, question bool, token paho.Token, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := sent{topic, token, now}
	u.messages = append(u.messages, m)
	if question {
		u.questions[topic] = m
	}
}

// over says that nobody waits for an acknowledgement any more.
func (m sent) over(now time.Time) bool {
	select {
	case <-m.token.Done():
		return true
	default:
		return now.Sub(m.at) >= lostAfter
	}
}
