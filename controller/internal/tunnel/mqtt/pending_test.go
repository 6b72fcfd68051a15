package mqtt

import (
	"errors"
	"strings"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	mochi "github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// receipt is the publish token of a message that the test acknowledges.
type receipt struct{ done chan struct{} }

func newReceipt() receipt { return receipt{make(chan struct{})} }

func (r receipt) Wait() bool                     { <-r.done; return true }
func (r receipt) WaitTimeout(time.Duration) bool { return r.Wait() }
func (r receipt) Done() <-chan struct{}          { return r.done }
func (r receipt) Error() error                   { return nil }

func TestPendingQueryIsNotRepeated(t *testing.T) {
	const topic = "e/a/health"
	now := time.Now()
	q := queries{sent: map[string]sentQuery{}}
	first, second := newReceipt(), newReceipt()
	q.add(topic, first, now)
	for after, want := range map[time.Duration]bool{behindAfter - 1: false, behindAfter: true, lostAfter - 1: true,
		lostAfter: false} {
		if got := q.isPending(topic, now.Add(after)); got != want {
			t.Errorf("pending after %s: %t, want %t", after, got, want)
		}
	}
	if q.isPending("e/b/health", now.Add(behindAfter)) {
		t.Error("a query that was not sent is pending")
	}
	q.add(topic, second, now)
	close(first.done)
	if !q.isPending(topic, now.Add(behindAfter)) {
		t.Error("a query is not pending after the acknowledgment of the previous one")
	}
	close(second.done)
	if q.isPending(topic, now.Add(behindAfter)) || len(q.sent) != 0 {
		t.Error("an acknowledged query is pending")
	}
}

// busy is a broker hook that delays acknowledgments until held is closed.
type busy struct {
	aclHook
	held   chan struct{} // closed by the test to continue
	topics chan string   // topics of the received commands
}

func (b *busy) Provides(hook byte) bool {
	return b.aclHook.Provides(hook) || hook == broker.OnPublish
}

func (b *busy) OnPublish(_ *broker.Client, pk mochi.Packet) (mochi.Packet, error) {
	if strings.HasSuffix(pk.TopicName, "/base/baseline") { // an echo
		return pk, nil
	}
	b.topics <- pk.TopicName
	<-b.held
	return pk, nil
}

func TestQueryIsNotRepeatedToSlowBroker(t *testing.T) {
	b := &busy{held: make(chan struct{}), topics: make(chan string, 10)}
	_, addr := serveBroker(t, b)
	connected, wait := signal()
	tun := startTunnel(t, addr, newRecorder(), connected)
	wait(t)
	ask := func() {
		t.Helper()
		if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"},
			arklet.Request{Command: arklet.CommandHealth}); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	<-b.topics
	q := &tun.conn.Load().queries
	q.mu.Lock()
	for topic, last := range q.sent { // make the query older
		q.sent[topic] = sentQuery{last.token, last.sentAt.Add(-behindAfter)}
	}
	q.mu.Unlock()
	before := q.sent[tun.prefix+"a/health"]
	ask()
	if q.sent[tun.prefix+"a/health"] != before {
		t.Error("a query was repeated to a slow broker")
	}
	close(b.held)
	waitFor(t, "the acknowledgement, and the next question", func() error {
		ask()
		if len(b.topics) == 0 {
			return errors.New("the broker received no command")
		}
		return nil
	})
}
