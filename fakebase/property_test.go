package fakebase

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// steps contains the allowed changes of module states (protocol 5).
var steps = map[State][]State{
	StateUnresolved:  {StateResolved},
	StateResolved:    {StateActivated, StateDeactivated, StateBroken},
	StateActivated:   {StateDeactivated},
	StateDeactivated: {StateActivated, StateStopped, StateBroken},
	StateBroken:      {StateStopped, StateBroken, StateUnresolved},
}

// observer derives the state of a base from the events of the base. The mutex of the base guards the fields, because
// events are delivered while the base is locked.
type observer struct {
	opts    Options
	seq     uint64
	states  map[string]State
	last    time.Time
	problem string // first violation that was found
}

func (o *observer) reportProblem(format string, args ...any) {
	if o.problem == "" {
		o.problem = fmt.Sprintf(format, args...)
	}
}

// follow updates the observed state with each event, and compares it with the status after the event.
func (o *observer) follow(e Event, after Status) {
	o.apply(e)
	listed := map[string]State{}
	for _, biz := range after.Biz {
		listed[biz.ID()] = biz.State
	}
	if !maps.Equal(listed, o.states) {
		o.reportProblem("after event %d, %s %s:%s to %s, the base lists %v, observed %v", e.Seq, e.Kind, e.Biz,
			e.Version,
			e.To, listed, o.states)
	}
}

func (o *observer) apply(e Event) {
	o.seq++
	if e.Seq != o.seq {
		o.reportProblem("event %d came as number %d", e.Seq, o.seq)
	}
	if e.Time.Before(o.last) {
		o.reportProblem("event %d goes back in time", e.Seq)
	}
	o.last = e.Time
	switch e.Kind {
	case EventUp, EventDown:
		o.states = map[string]State{}
	case EventBiz:
		o.change(e)
	}
}

func (o *observer) change(e Event) {
	id := e.Biz + ":" + e.Version
	from, known := o.states[id]
	if !known {
		from = StateUnresolved
	}
	if from != e.From || !slices.Contains(steps[from], e.To) {
		o.reportProblem("%s goes from %s (seen as %s) to %s", id, e.From, from, e.To)
	}
	o.states[id] = e.To
	if e.To == StateStopped || e.To == StateUnresolved {
		delete(o.states, id)
	}
	active := 0
	for other, s := range o.states {
		if s == StateActivated && strings.HasPrefix(other, e.Biz+":") {
			active++
		}
	}
	if active > 1 && o.opts.Activation != ActivateMulti {
		o.reportProblem("%d versions of %s are active", active, e.Biz)
	}
}

// compare compares the observed state with the status of the base. It returns a description of the difference; empty
// if they are equal.
func (o *observer) compare(b *Base) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.current
	if o.problem != "" || l == nil {
		return o.problem
	}
	listed := map[string]State{}
	for _, biz := range l.container.List() {
		listed[biz.ID()] = biz.State
		if last := biz.Records[len(biz.Records)-1]; last.State != biz.State {
			return fmt.Sprintf("%s is %s, its last record says %s", biz.ID(), biz.State, last.State)
		}
	}
	if !maps.Equal(listed, o.states) {
		return fmt.Sprintf("listed %v, observed %v", listed, o.states)
	}
	used := int64(53 * mib)
	for id, size := range l.chargedMetaspace {
		used += size
		if s := listed[id]; s != StateActivated && s != StateDeactivated && s != StateBroken {
			return fmt.Sprintf("%s is charged in state %q", id, s)
		}
	}
	if l.metaspaceUse.used != used || l.metaspaceUse.used > o.opts.Metaspace.Max ||
		l.metaspaceUse.committed < l.metaspaceUse.used {
		return fmt.Sprintf("metaspace %d used, %d committed, modules account for %d", l.metaspaceUse.used,
			l.metaspaceUse.committed,
			used)
	}
	return ""
}

// randomOperation is a random operation on a base.
type randomOperation struct {
	Do           string
	Biz, Version string
	First        bool // whether to install with the strategy uninstallThenInstall
	Code         string
	Fault        fault.Kind
	Wait         time.Duration // time to wait after the operation
}

var ops = rapid.Custom(func(t *rapid.T) randomOperation {
	return randomOperation{
		Do: rapid.SampledFrom(
			[]string{"install", "install", "install", "uninstall", "uninstall", "switch", "batch", "error", "fault",
				"crash", "restart"}).Draw(t, "do"),
		// Few modules, so that commands have conflicts.
		Biz:     rapid.SampledFrom([]string{"biz1", "biz1", "biz2"}).Draw(t, "biz"),
		Version: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version"),
		First:   rapid.Bool().Draw(t, "first"),
		Code:    rapid.SampledFrom(fault.Codes()).Draw(t, "code"),
		Fault: rapid.SampledFrom(
			[]fault.Kind{fault.KindMetaspaceFull, fault.KindFlapping, fault.KindActuatorDown, fault.KindStartFailed,
				fault.KindHang}).Draw(t, "fault"),
		Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 500, 2500}).Draw(t, "ms")) * time.Millisecond,
	}
})

// TestBaseInvariants checks the invariants of a base during random sequences of concurrent commands, faults, crashes
// and restarts.
func TestBaseInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		auto, remove := rapid.Bool().Draw(rt, "autoUninstall"), rapid.Bool().Draw(rt, "removeWhenStopFailed")
		opts := Options{
			Identity: "b1", Seed: rapid.Uint64().Draw(rt, "seed"),
			Activation: rapid.SampledFrom(
				[]Activation{ActivateDefault, ActivateNewModule, ActivateMulti}).Draw(rt, "activation"),
			AutoUninstallWhenFailed: &auto, RemoveWhenStopFailed: &remove,
			Metaspace: Metaspace{Max: 53*mib + 3*defaultModuleMetaspace},
			Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: Delay{Spread: Duration(2 * time.Second)},
				UninstallTime: Delay{Spread: Duration(time.Second)}},
		}
		sequence := rapid.SliceOfN(ops, 1, 80).Draw(rt, "ops")
		problem := ""
		synctest.Test(t, func(*testing.T) { problem = play(opts, sequence) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// play runs a sequence of operations. It returns a description of the first violated invariant; empty if none was
// violated.
func play(opts Options, sequence []randomOperation) string {
	b, err := New(opts)
	if err != nil {
		return err.Error()
	}
	o := &observer{opts: opts, states: map[string]State{}}
	b.WatchStatus(o.follow)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Start(ctx) // fails only if a tunnel cannot be opened
	}()
	defer func() {
		cancel()
		<-done
	}()
	synctest.Wait()
	hangs := false
	for i, x := range sequence {
		if err := x.run(b); err != nil {
			return err.Error()
		}
		hangs = hangs || x.Do == "fault" && x.Fault == fault.KindHang
		if x.Wait > 0 || x.Do == "restart" {
			sleep(x.Wait)
			synctest.Wait()
		}
		if problem := o.compare(b); problem != "" {
			return fmt.Sprintf("after step %d: %s", i, problem)
		}
	}
	// At the end, only hanging commands have locks.
	b.Clear()
	sleep(time.Minute)
	synctest.Wait()
	if problem := o.compare(b); problem != "" {
		return "in the end: " + problem
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.current; l != nil && len(l.locks) > 0 && !hangs {
		return fmt.Sprintf("locks are left: %v", l.locks)
	}
	return ""
}

// run executes the operation on the base. Commands run on separate goroutines.
func (x randomOperation) run(b *Base) error {
	req := request(x.Version)
	req.BizName.value = x.Biz
	if x.First {
		req.InstallStrategy = jsonString{strategyUninstallFirst, true}
	}
	b.mu.Lock()
	l := b.current
	b.mu.Unlock()
	command := func(run func() commandResult) {
		if l != nil {
			l.spawn(func() { run() })
		}
	}
	var err error
	switch x.Do {
	case "install":
		command(func() commandResult { return l.installCommand(req) })
	case "uninstall":
		command(func() commandResult { return l.uninstallCommand(req) })
	case "switch":
		command(func() commandResult { return l.switchCommand(req) })
	case "batch":
		command(func() commandResult { return l.batchCommand(&batchRequest{BizList: []bizRequest{*req}}, ark.Replay) })
	case "error":
		_, err = b.Inject(fault.Fault{Kind: fault.KindError, Code: x.Code, Count: 1, For: Duration(2 * time.Second)})
	case "fault":
		_, err = b.Inject(fault.Fault{Kind: x.Fault, For: Duration(2 * time.Second)})
	case "crash":
		_, err = b.Inject(fault.Fault{Kind: fault.KindCrash, Match: fault.Match{Biz: x.Biz}, Restart: &fault.Restart{}})
	case "restart":
		err = b.Restart("")
	}
	return err
}
