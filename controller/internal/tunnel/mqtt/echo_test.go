package mqtt

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
)

func TestLateAndLostEchoes(t *testing.T) {
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
			for range 3 * maxEchoes {
				e.next(start)
			}
		}, time.Hour, false},
		{"one is on its way", func(e *echo) { e.returned(e.next(start), start); e.next(start) }, echoLate, false},
		{"one is late", func(e *echo) { e.returned(e.next(start), start); e.next(start) }, echoLate + 1, true},
		{"a late one came", func(e *echo) {
			e.returned(e.next(start), start)
			e.returned(e.next(start),
				at(time.Minute))
		},
			time.Minute, false},
		{"one of two was lost",
			func(e *echo) { e.returned(e.next(start), start); e.next(start); e.returned(e.next(start), start) },
			echoLost - 1,
			true},
		{"one of two was lost, long ago",
			func(e *echo) { e.returned(e.next(start), start); e.next(start); e.returned(e.next(start), start) },
			echoLost,
			false},
		{"those before the first that came", func(e *echo) { e.next(start); e.returned(e.next(start), start) }, 0,
			false},
		{"more are on their way than are noted", func(e *echo) {
			first := e.next(start)
			for range maxEchoes {
				e.next(start)
			}
			e.returned(first, start) // no longer pending
			e.returned(e.last, start)
		}, time.Hour, false},
		{"one came twice", func(e *echo) {
			n := e.next(start)
			e.returned(n, start)
			e.returned(n,
				start)
			e.next(start)
			e.returned(n, start)
		}, echoLate, false},
		{"one was never sent", func(e *echo) { e.returned(7, start); e.next(start) }, time.Hour, false},
	} {
		e := &echo{}
		c.do(e)
		if got := e.delayed(at(c.when)); got != c.want {
			t.Errorf("%s: delayed %v, want %v", c.name, got, c.want)
		}
		if len(e.sent) > maxEchoes {
			t.Errorf("%s: %d pending echoes", c.name, len(e.sent))
		}
	}
}

func TestNewConnectionHasNoPendingEchoes(t *testing.T) {
	now := time.Now()
	e := &echo{}
	e.returned(e.next(now), now)
	e.next(now)
	e.next(now)
	e.returned(e.last, now)
	late := e.next(now)
	e = e.forNextConnection()
	if e.delayed(now.Add(time.Hour)) {
		t.Error("delayed without pending echoes")
	}
	e.returned(late, now)
	e.next(now)
	if !e.delayed(now.Add(echoLate + 1)) {
		t.Error("not delayed with a late echo, although echoes returned before")
	}
}

// droppingHook is a broker hook that can drop echoes.
type droppingHook struct {
	aclHook
	on atomic.Bool
}

func (l *droppingHook) Provides(hook byte) bool {
	return hook == broker.OnACLCheck || l.aclHook.Provides(hook)
}

func (l *droppingHook) OnACLCheck(_ *broker.Client, topic string, write bool) bool {
	return write || !l.on.Load() || !strings.HasSuffix(topic, "/base/baseline")
}

func TestTunnelIsDelayedWhileEchoesAreLost(t *testing.T) {
	b := &droppingHook{}
	_, addr := serveBroker(t, b)
	h := newRecorder()
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
		return e.received
	})
	if tun.Delayed() {
		t.Error("the tunnel is delayed although echoes return")
	}
	b.on.Store(true)
	is("the controller to notice", tun.Delayed)
	if len(h.lines) > 0 {
		t.Errorf("an echo was passed to the handler: %s", <-h.lines)
	}
}
