package mqtt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	mochi "github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// receipt is the token of a message that is acknowledged when the test says so.
type receipt struct{ done chan struct{} }

func newReceipt() receipt { return receipt{make(chan struct{})} }

func (r receipt) Wait() bool                     { <-r.done; return true }
func (r receipt) WaitTimeout(time.Duration) bool { return r.Wait() }
func (r receipt) Done() <-chan struct{}          { return r.done }
func (r receipt) Error() error                   { return nil }

func TestAQuestionOnItsWayIsNotAskedAgain(t *testing.T) {
	const question, operation = "e/a/health", "e/a/installBiz"
	now := time.Now()
	u := newUnacknowledged()
	may := func(topic string, is bool, after time.Duration) bool {
		t.Helper()
		got, err := u.admit(topic, is, now.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	lost, first, second := newReceipt(), newReceipt(), newReceipt()
	u.note("e/b/health", true, lost, now) // its acknowledgement holds up no other
	u.note(question, true, first, now)
	u.note(operation, false, newReceipt(), now)
	for _, c := range []struct {
		topic    string
		question bool
		after    time.Duration
		want     bool
	}{
		{question, true, behindAfter - 1, true},
		{question, true, behindAfter, false},
		{question, true, lostAfter - 1, false},
		{question, true, lostAfter, true},
		{"e/c/health", true, behindAfter, true},
		{operation, false, behindAfter, true},
	} {
		if got := may(c.topic, c.question, c.after); got != c.want {
			t.Errorf("%s, %s after: sent %v, want %v", c.topic, c.after, got, c.want)
		}
	}
	now = now.Add(lostAfter)
	u.note(question, true, second, now)
	close(first.done)
	if may(question, true, behindAfter) {
		t.Error("a question is asked a third time, when only the first was acknowledged")
	}
	close(second.done)
	if !may(question, true, behindAfter) {
		t.Error("a question whose last one was acknowledged is not asked")
	}
	if len(u.messages) != 0 || len(u.questions) != 0 {
		t.Errorf("%d messages and %d questions are kept, after all were acknowledged or given up", len(u.messages), len(u.questions))
	}
}

func TestABrokerThatIsFarBehindIsSentNoMore(t *testing.T) {
	now := time.Now()
	u := newUnacknowledged()
	first := newReceipt()
	for i := range mostUnacknowledged {
		topic, r := fmt.Sprint("e/", i, "/installBiz"), first
		if i > 0 {
			r = newReceipt()
		}
		if may, err := u.admit(topic, false, now); err != nil || !may {
			t.Fatalf("message %d: sent %v, error %v", i, may, err)
		}
		u.note(topic, false, r, now)
	}
	if _, err := u.admit("e/more/installBiz", false, now); !errors.Is(err, errBehind) {
		t.Errorf("one too many: error %v, want errBehind", err)
	}
	close(first.done)
	if may, err := u.admit("e/more/installBiz", false, now); err != nil || !may {
		t.Errorf("after one was acknowledged: sent %v, error %v", may, err)
	}
}

// busy is a broker that acknowledges nothing while it is held.
type busy struct {
	doorman
	held chan struct{} // closed when it goes on
	told chan string   // topics of commands
}

func (b *busy) Provides(hook byte) bool {
	return b.doorman.Provides(hook) || hook == broker.OnPublish
}

func (b *busy) OnPublish(_ *broker.Client, pk mochi.Packet) (mochi.Packet, error) {
	if strings.HasSuffix(pk.TopicName, "/base/baseline") { // what the controller says to itself
		return pk, nil
	}
	b.told <- pk.TopicName
	<-b.held
	return pk, nil
}

func TestABrokerThatIsBehind(t *testing.T) {
	b := &busy{held: make(chan struct{}), told: make(chan string, 10)}
	_, addr := serveBroker(t, b)
	connected, wait := signal()
	tun := startTunnel(t, addr, newHearing(), connected)
	wait(t)
	ask := func() {
		t.Helper()
		if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"}, arklet.Request{Command: arklet.CommandHealth}); err != nil {
			t.Fatal(err)
		}
	}
	unacknowledged := tun.conn.Load().unacknowledged
	waiting := func() int {
		unacknowledged.mu.Lock()
		defer unacknowledged.mu.Unlock()
		return len(unacknowledged.messages)
	}
	ask()
	<-b.told
	unacknowledged.mu.Lock()
	for topic, q := range unacknowledged.questions { // as if it had been sent a while ago
		q.at = q.at.Add(-behindAfter)
		unacknowledged.messages[0], unacknowledged.questions[topic] = q, q
	}
	unacknowledged.mu.Unlock()
	ask()
	if n := waiting(); n != 1 {
		t.Errorf("%d messages are on their way to a broker that is behind, want 1", n)
	}
	close(b.held)
	waitFor(t, "the acknowledgement, and the next question", func() error {
		ask()
		if len(b.told) == 0 {
			return errors.New("the broker was not told")
		}
		return nil
	})
}
