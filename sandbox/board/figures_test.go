package board

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// thousand is a Board of 1,000 bases with a module on each, 1,000 names in all, that looks at nothing.
func thousand(b testing.TB) *Board {
	x := &Board{world: newWorld(BoardRow{}), feed: feed.New(feed.Options{Epoch: "e", KeepFor: keepFor, KeepBytes: keepBytes})}
	for i := range 1000 {
		name := fmt.Sprintf("base-%d", i)
		x.world.nodeChanged(aNode(name, corev1.ConditionTrue), false, began)
		for _, change := range []events.BaseChange{events.BaseUp, events.BaseReady, events.BaseConnected} {
			x.world.note(events.Event{Time: began, Base: &events.BaseEvent{Base: name, Identity: "id-" + name, Change: change}})
		}
		x.world.note(events.Event{Time: began, Module: &events.ModuleEvent{Base: name, ModuleRef: events.ModuleRef{Name: fmt.Sprintf("biz%d", i), Version: "1.0.0"}, State: "ACTIVATED"}})
	}
	x.world.settle()
	x.send(b, began)
	return x
}

// send does what publish does.
func (b *Board) send(t testing.TB, now time.Time) {
	now, u := b.world.flush(now)
	if err := b.feed.Put(now, u); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkFirstMessage is what a page that is opened costs the server, with 1,000 bases.
func BenchmarkFirstMessage(b *testing.B) {
	x := thousand(b)
	size := 0
	for b.Loop() {
		m, s, err := x.feed.Subscribe(began)
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
		size = len(m.Data)
	}
	b.ReportMetric(float64(size), "bytes")
}

// BenchmarkChange is what a change on one of 1,000 bases costs, from its event to the message.
func BenchmarkChange(b *testing.B) {
	x := thousand(b)
	_, s, err := x.feed.Subscribe(began)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	states := []events.ModuleState{events.ModuleDeactivated, events.ModuleActivated}
	now := began
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Millisecond)
		x.world.note(events.Event{Time: now, Module: &events.ModuleEvent{Base: "base-7", ModuleRef: events.ModuleRef{Name: "biz7", Version: "1.0.0"}, State: states[i%2]}})
		x.send(b, now)
		<-s.Messages()
	}
}

// BenchmarkRest is what a second costs in which nothing happens to 1,000 bases.
func BenchmarkRest(b *testing.B) {
	x := thousand(b)
	now := began
	for b.Loop() {
		now = now.Add(time.Second)
		x.send(b, now)
	}
}

// A change reaches a page within 250 ms, and while changes go on there are at most ten messages a
// second.
func TestAChangeIsToldSoon(t *testing.T) {
	d := &fakeDaemon{events: make(chan events.Event)}
	x := serve(t, Options{Title: "koup"}, d).stream(t)
	sendAll(d, events.Event{Base: &events.BaseEvent{Base: "base-1", Change: "up"}}, events.Event{Synced: true})
	x.until("the base", func() bool { return len(x.tables.Base) == 1 })
	var took []time.Duration
	first := time.Now()
	for i := range 20 {
		version := fmt.Sprint(i)
		sent := time.Now()
		d.events <- events.Event{Time: sent, Module: &events.ModuleEvent{Base: "base-1", ModuleRef: events.ModuleRef{Name: "biz1", Version: version}, State: "ACTIVATED"}}
		x.until("the module", func() bool {
			return slices.ContainsFunc(x.tables.Base["base-1"].Modules, func(m ModuleOnBase) bool { return m.Version == version })
		})
		took = append(took, time.Since(sent))
	}
	if slices.Sort(took); took[18] > 250*time.Millisecond {
		t.Errorf("changes took %v", took)
	}
	if all := time.Since(first); all < 18*messageEvery {
		t.Errorf("20 messages one after the other took %s, want one each %s at most", all, messageEvery)
	}
}
