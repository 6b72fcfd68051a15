package mqtt

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
)

func TestWhatComesBackLateOrNotAtAllTells(t *testing.T) {
	start := time.Now()
	at := func(after time.Duration) time.Time { return start.Add(after) }
	for _, c := range []struct {
		name string
		do   func(e *echo)
		when time.Duration
		want bool
	}{
		{"nothing was sent", func(*echo) {}, time.Hour, false},
		{"none has ever come back", func(e *echo) {
			for range 3 * mostEchoes {
				e.next(start)
			}
		}, time.Hour, false},
		{"one is on its way", func(e *echo) { e.back(e.next(start), start); e.next(start) }, echoLate, false},
		{"one is late", func(e *echo) { e.back(e.next(start), start); e.next(start) }, echoLate + 1, true},
		{"a late one came", func(e *echo) { e.back(e.next(start), start); e.back(e.next(start), at(time.Minute)) },
			time.Minute, false},
		{"one of two was lost",
			func(e *echo) { e.back(e.next(start), start); e.next(start); e.back(e.next(start), start) }, echoLost - 1,
			true},
		{"one of two was lost, long ago",
			func(e *echo) { e.back(e.next(start), start); e.next(start); e.back(e.next(start), start) }, echoLost,
			false},
		{"those before the first that came", func(e *echo) { e.next(start); e.back(e.next(start), start) }, 0, false},
		{"more are on their way than are noted", func(e *echo) {
			first := e.next(start)
			for range mostEchoes {
				e.next(start)
			}
			e.back(first, start) // no longer known
			e.back(e.last, start)
		}, time.Hour, false},
		{"one came twice", func(e *echo) {
			n := e.next(start)
			e.back(n, start)
			e.back(n,
				start)
			e.next(start)
			e.back(n, start)
		}, echoLate, false},
		{"one was never sent", func(e *echo) { e.back(7, start); e.next(start) }, time.Hour, false},
	} {
		e := &echo{}
		c.do(e)
		if got := e.behind(at(c.when)); got != c.want {
			t.Errorf("%s: behind %v, want %v", c.name, got, c.want)
		}
		if len(e.sent) > mostEchoes {
			t.Errorf("%s: %d echoes on their way are kept", c.name, len(e.sent))
		}
	}
}

func TestOverANewConnectionNothingIsLateYet(t *testing.T) {
	now := time.Now()
	e := &echo{}
	e.back(e.next(now), now)
	e.next(now)
	e.next(now)
	e.back(e.last, now)
	late := e.next(now)
	e = e.anew()
	if e.behind(now.Add(time.Hour)) {
		t.Error("behind, with nothing on its way")
	}
	e.back(late, now)
	e.next(now)
	if !e.behind(now.Add(echoLate + 1)) {
		t.Error("not behind with a late echo: that echoes come back is not known any more")
	}
}

// losing is a broker that drops what a controller says to itself while it is told to.
type losing struct {
	doorman
	on atomic.Bool
}

func (l *losing) Provides(hook byte) bool {
	return hook == broker.OnACLCheck || l.doorman.Provides(hook)
}

func (l *losing) OnACLCheck(_ *broker.Client, topic string, write bool) bool {
	return write || !l.on.Load() || !strings.HasSuffix(topic, "/base/baseline")
}

func TestAControllerThatDoesNotHearItselfIsBehind(t *testing.T) {
	b := &losing{}
	_, addr := serveBroker(t, b)
	h := newHearing()
	connected, wait := signal()
	tun := startTunnel(t, addr, h, connected)
	wait(t)
	is := func(what string, f func() bool) {
		t.Helper()
		waitFor(t, what, func() error {
			if !f() {
				return errors.New("not so")
			}
			return nil
		})
	}
	is("the first echo", func() bool {
		e := tun.echo.Load()
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.came
	})
	if tun.Delayed() {
		t.Error("a controller that hears itself is behind")
	}
	b.on.Store(true)
	is("the controller to notice", tun.Delayed)
	if len(h.lines) > 0 {
		t.Errorf("what it said to itself was taken for what a base says: %s", <-h.lines)
	}
}
