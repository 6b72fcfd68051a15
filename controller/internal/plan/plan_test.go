package plan

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// model is a lane, its Pods and its base, without any of the machinery: it carries out what next
// says. Versions called "static" are what the base had of itself.
type model struct {
	t    *rapid.T
	mode mode
	http bool
	now  time.Time

	pods    []arklet.Module // that stay, oldest first
	leaving map[string]Terminating
	memory  Memory
	list    map[string]arklet.Biz
	jars    map[string]string    // really installed, by version
	broken  map[string]bool      // versions whose installs fail
	stuck   map[string]bool      // versions whose uninstalls fail
	ceased  map[string]time.Time // when requests went from a version to another
	tick    time.Duration        // that no two records are of the same time

	log []string
}

// mode is what a base does with a new version beside the active one.
type mode int

const (
	activateNew   mode = iota // it switches to the new version
	activateMulti             // both are active
	keepOld                   // it keeps the new version deactivated
)

const modelDrain = 2 * time.Second

func (m *model) input() Input {
	in := Input{
		Now: m.now, Name: "biz", Terminating: m.leaving, Memory: m.memory, Listed: m.list,
		CanSwitch: m.http, Drain: modelDrain,
	}
	for _, w := range slices.Backward(m.pods) {
		if !slices.Contains(in.Wanted, w) {
			in.Wanted = append(in.Wanted, w)
		}
	}
	in.Requested = slices.Clone(in.Wanted)
	for version := range m.leaving {
		in.Requested = append(in.Requested, arklet.Module{Name: "biz", Version: version})
	}
	return in
}

func (m *model) active() (versions []string) {
	for version, biz := range m.list {
		if biz.State == arklet.StateActivated {
			versions = append(versions, version)
		}
	}
	slices.Sort(versions)
	return versions
}

// settle carries out steps until there is nothing to be done before some time passes.
func (m *model) settle() (wait time.Duration) {
	for range 100 {
		s := m.input()
		before, terminating := s.Memory.clone(), maps.Clone(m.leaving)
		decision := Next(s)
		if !reflect.DeepEqual(before, s.Memory) || !maps.Equal(m.leaving, terminating) {
			m.t.Fatalf("Next has changed its input:\n%s", m.story())
		}
		do := decision.Action
		m.memory = decision.Memory
		s.Memory = m.memory
		m.log = append(m.log, fmt.Sprintf("%s: do %d %s %s, wait %s; list %v, wants %v", m.now.Format("04:05"), do.Kind,
			do.Module.Identity(), do.Module.URL, do.Wait, m.states(), m.pods))
		if do.Kind == NoAction {
			if r := m.memory.Replacing; r != nil && r.NotReady.IsZero() {
				m.memory.Replacing = &Replacing{Module: r.Module, NotReady: m.now}
				continue
			}
			return do.Wait
		}
		served := len(m.active()) > 0
		m.carryOut(s, do)
		if served && len(m.active()) == 0 && len(m.pods) > 0 {
			m.mayBeWithout(s, do)
		}
	}
	m.t.Fatalf("it does not come to rest:\n%s", m.story())
	return 0
}

// mayBeWithout fails unless a step may leave the base without an active version although Pods want
// one.
func (m *model) mayBeWithout(s Input, do Action) {
	newest := s.Wanted[0]
	kept := slices.ContainsFunc(s.Wanted,
		func(w arklet.Module) bool { return s.Listed[w.Version].State == arklet.StateDeactivated })
	switch {
	case (kept || do.Kind == UninstallConflicting) && !m.http && m.mode == keepOld: // the protocol has no other way
	case do.Module.Version == newest.Version && (&planner{Input: s}).differs(newest): // nor here
	case do.Kind == UninstallConflicting && !m.http && m.stayed(s, do):
	case m.allFail(s) && m.stayed(s, do): // nothing that is wanted can be had
	default:
		m.t.Fatalf("the base is without the module although %s was on its way:\n%s", newest.Identity(), m.story())
	}
}

// stayed says whether an active version that no Pod wants has stayed for as long as it may.
func (m *model) stayed(s Input, do Action) bool {
	until := s.Memory.Installed[do.Module.Version].UnwantedSince.Add(ExpectedFor)
	if l, leaves := m.leaving[do.Module.Version]; leaves {
		until = l.Until
	}
	return !m.now.Before(until)
}

func (m *model) allFail(s Input) bool {
	return !slices.ContainsFunc(s.Wanted, func(w arklet.Module) bool {
		return m.memory.Failed[InstallAttempt(w)].Err == nil && m.memory.Failed[UninstallAttempt(w)].Err == nil
	})
}

func (m *model) states() map[string]string {
	out := map[string]string{}
	for version, biz := range m.list {
		out[version] = string(biz.State) + "(" + m.jars[version] + ")"
	}
	return out
}

func (m *model) story() (text string) {
	for _, line := range m.log {
		text += line + "\n"
	}
	return text
}

func (m *model) set(version string, state arklet.State, reason string) {
	if state == arklet.StateDeactivated && reason == arklet.ReasonSwitched {
		m.ceased[version] = m.now
	}
	if state == arklet.StateActivated { // requests come to it
		for _, v := range m.active() {
			if !m.passedBy(v) {
				m.ceased[v] = m.now
			}
		}
	}
	m.tick++
	m.list[version] = arklet.Biz{Name: "biz", Version: version, State: state,
		Latest: arklet.Record{At: m.now.Add(m.tick), State: state, Reason: reason}}
}

// passedBy says whether a version is active and another became active after it.
func (m *model) passedBy(version string) bool {
	biz := m.list[version]
	return biz.State == arklet.StateActivated &&
		slices.ContainsFunc(m.active(), func(v string) bool { return m.list[v].Latest.At.After(biz.Latest.At) })
}

func (m *model) carryOut(s Input, do Action) {
	fail := func(a Attempt) {
		f := m.memory.Failed[a]
		f.Err, f.At, f.Attempts = errors.New("boom"), m.now, f.Attempts+1
		f.Next = m.now.Add(min(500*time.Millisecond<<(f.Attempts-1), 5*time.Minute))
		m.memory.Failed[a] = f
	}
	w := do.Module
	for _, goes := range []arklet.Module{do.Conflicting, do.Module} {
		ceased := m.list[goes.Version].State == arklet.StateDeactivated ||
			m.passedBy(goes.Version) && !s.IsWanted(goes.Version)
		works := ceased && m.now.Before(m.ceased[goes.Version].Add(modelDrain))
		if works && (do.Kind == DoUninstall || do.Kind == UninstallConflicting) {
			m.t.Fatalf("%s is uninstalled, which may yet work on requests:\n%s", goes.Identity(), m.story())
		}
	}
	switch do.Kind {
	case DoInstall:
		if _, there := m.list[w.Version]; there {
			m.t.Fatalf("%s is installed although it is there:\n%s", w.Identity(), m.story())
		}
		m.memory.Installed[w.Version] = Installed{URL: w.URL}
		if r := m.memory.Replacing; r != nil && r.Module == w {
			m.memory.Replacing = nil
		}
		if m.broken[w.Version+w.URL] {
			fail(InstallAttempt(w))
			return
		}
		delete(m.memory.Failed, InstallAttempt(w))
		m.jars[w.Version] = w.URL
		active := m.active()
		switch {
		case len(active) > 0 && m.mode == keepOld:
			m.set(w.Version, arklet.StateDeactivated, "STARTED")
			return
		case m.mode == activateNew:
			for _, v := range active {
				m.set(v, arklet.StateDeactivated, "SWITCHED")
			}
		}
		m.set(w.Version, arklet.StateActivated, "STARTED")
	case DoSwitch:
		for _, v := range m.active() {
			m.set(v, arklet.StateDeactivated, "SWITCHED")
		}
		m.set(w.Version, arklet.StateActivated, "SWITCHED")
	case UninstallConflicting:
		if !m.stuck[do.Conflicting.Version] { // else it is in the way later
			delete(m.list, do.Conflicting.Version)
		}
		if m.stuck[w.Version] {
			fail(UninstallAttempt(w))
			return
		}
		delete(m.list, w.Version)
	case DoUninstall:
		if _, there := m.list[w.Version]; !there {
			m.t.Fatalf("%s is uninstalled although it is not there:\n%s", w.Identity(), m.story())
		}
		if w.Version == "static" && !s.IsWanted("static") {
			m.t.Fatalf("what no Pod asked for is uninstalled:\n%s", m.story())
		}
		if m.stuck[w.Version] {
			fail(UninstallAttempt(w))
			return
		}
		delete(m.list, w.Version)
	case AcquireReplacePermit:
		m.memory.Replacing = &Replacing{Module: w}
	case NoAction, RequestList:
	}
}

// Whatever Pods come and go, whatever fails, restarts and is forgotten: the base is never without
// the module while one that is wanted can be had, comes to what the newest Pod wants, and keeps
// nothing of what Pods had put there.
func TestPlan(t *testing.T) {
	for range 20 { // of a hundred each
		rapid.Check(t, checkPlan)
	}
}

func checkPlan(t *rapid.T) {
	m := &model{
		t: t, mode: rapid.SampledFrom([]mode{activateNew, activateMulti, keepOld}).Draw(t, "mode"),
		http:    rapid.Bool().Draw(t, "http"),
		now:     time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC),
		leaving: map[string]Terminating{}, memory: NewMemory(), list: map[string]arklet.Biz{},
		jars:   map[string]string{},
		broken: map[string]bool{}, stuck: map[string]bool{}, ceased: map[string]time.Time{},
	}
	if rapid.Bool().Draw(t, "static") {
		m.set("static", arklet.StateActivated, "STARTED")
	}
	version := rapid.SampledFrom([]string{"1", "2", "3"})
	jar := rapid.SampledFrom([]string{"a", "a", "a", "b"})
	t.Repeat(map[string]func(*rapid.T){
		"create": func(t *rapid.T) {
			w := arklet.Module{Name: "biz", Version: version.Draw(t, "version"), URL: jar.Draw(t, "jar")}
			m.pods = append(m.pods, w)
			delete(m.memory.Failed, InstallAttempt(w))
		},
		"delete": func(t *rapid.T) {
			if len(m.pods) == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.pods)-1).Draw(t, "which")
			w := m.pods[i]
			m.pods = slices.Delete(m.pods, i, i+1)
			if rapid.Bool().Draw(t, "with grace") {
				m.leaving[w.Version] = Terminating{Since: m.now, Until: m.now.Add(25 * time.Second),
					SuccessorComes: rapid.Bool().Draw(t, "a Pod may come")}
			}
		},
		"its grace is over": func(*rapid.T) { clear(m.leaving) },
		"break": func(t *rapid.T) {
			m.broken[version.Draw(t, "version")+jar.Draw(t, "jar")] = rapid.Bool().Draw(t, "broken")
		},
		"stick": func(t *rapid.T) { m.stuck[version.Draw(t, "version")] = rapid.Bool().Draw(t, "stuck") },
		"restart the base": func(*rapid.T) {
			clear(m.list)
			clear(m.memory.Failed)
		},
		"somebody uninstalls": func(t *rapid.T) { delete(m.list, version.Draw(t, "version")) },
		"restart the controller": func(*rapid.T) {
			for version, i := range m.memory.Installed {
				m.memory.Installed[version] = Installed{URL: i.URL}
			}
			clear(m.memory.Failed)
			m.memory.Replacing = nil
		},
		"pass": func(t *rapid.T) {
			m.settle()
			m.now = m.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			m.settle()
		},
	})
	clear(m.broken)
	clear(m.stuck)
	clear(m.leaving)
	for range 200 {
		wait := m.settle()
		if wait == 0 {
			break
		}
		m.now = m.now.Add(wait)
	}
	m.atTheEnd()
}

func (m *model) atTheEnd() {
	var want arklet.Module
	kept := map[string]bool{"static": true}
	for _, w := range m.pods {
		want = w
		kept[w.Version] = true
	}
	for version := range maps.Keys(m.list) {
		if !kept[version] {
			m.t.Fatalf("%s stays, which no Pod wants:\n%s", version, m.story())
		}
	}
	if len(m.pods) == 0 {
		return
	}
	biz := m.list[want.Version]
	others := slices.ContainsFunc(m.active(), func(v string) bool { return v != want.Version })
	if biz.State != arklet.StateActivated && (m.http || m.mode != keepOld || !others) {
		m.t.Fatalf("%s is %q:\n%s", want.Identity(), biz.State, m.story())
	}
	if biz.State == arklet.StateActivated && m.jars[want.Version] != want.URL {
		m.t.Fatalf("%s is active from jar %s, not %s:\n%s", want.Identity(), m.jars[want.Version], want.URL, m.story())
	}
}

// The grace of the version that answers is over, and the one that is wanted has to be installed from another jar:
// what is there of it may work on requests yet, as far as a controller knows that has just begun.
func TestWhatAnswersStaysWhileItsSuccessorDrains(t *testing.T) {
	now := time.Now()
	s := Input{
		Now: now, Name: "m", Wanted: []arklet.Module{{Name: "m", Version: "2", URL: "b"}}, CanSwitch: true,
		Drain:       2 * time.Second,
		Terminating: map[string]Terminating{"1": {Since: now.Add(-25 * time.Second), Until: now}},
		Memory:      Memory{Installed: map[string]Installed{"1": {URL: "a"}, "2": {URL: "a"}}},
		Listed: map[string]arklet.Biz{
			"1": {Name: "m", Version: "1", State: arklet.StateActivated},
			"2": {Name: "m", Version: "2", State: arklet.StateDeactivated,
				Latest: arklet.Record{Reason: arklet.ReasonSwitched}},
		},
	}
	for _, tc := range []struct {
		after time.Duration
		want  Action
	}{
		{0, Action{Wait: time.Second}},
		{2 * time.Second, Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "2", URL: "b"}}},
	} {
		s.Now = now.Add(tc.after)
		got := Next(s)
		s.Memory = got.Memory
		if got.Action != tc.want {
			t.Errorf("after %s: %+v, want %+v", tc.after, got.Action, tc.want)
		}
	}
}

// Requests may go to an active version for as long as endpoints are out of date.
func TestNothingActiveGoesWhileEndpointsAreOutOfDate(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		state     arklet.State
		unsettled time.Duration
		want      Action
	}{
		"settled": {arklet.StateActivated, 0,
			Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "1"}}},
		"out of date":  {arklet.StateActivated, 5 * time.Second, Action{Wait: RecheckAfter}},
		"for a moment": {arklet.StateActivated, time.Millisecond, Action{Wait: time.Millisecond}},
		"out of date, but deactivated": {arklet.StateDeactivated, 5 * time.Second,
			Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "1"}}},
	} {
		s := Input{Now: now, Name: "m", Terminating: map[string]Terminating{},
			Memory: Memory{Installed: map[string]Installed{"1": {}}},
			Listed: map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: c.state}}, EndpointLag: c.unsettled}
		if got := Next(s).Action; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A base that keeps all versions active has the newest answer. One that came when its Pod was leaving already
// goes at once; one that came first, or whose Pod was Ready, is drained.
func TestAnIntruderIsNotDrained(t *testing.T) {
	now := time.Now()
	wanted, next := arklet.Module{Name: "m", Version: "1"}, arklet.Module{Name: "m", Version: "3"}
	gone := Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "2"}}
	for name, c := range map[string]struct {
		served bool
		came   time.Duration // after what is wanted
		state  arklet.State  // of what is wanted
		wants  []arklet.Module
		want   Action
	}{
		"came late": {false, time.Second, arklet.StateActivated, []arklet.Module{wanted}, gone},
		"was Ready": {true, time.Second, arklet.StateActivated, []arklet.Module{wanted},
			Action{Wait: 2 * time.Second}},
		"came first": {false, -time.Second, arklet.StateActivated, []arklet.Module{wanted},
			Action{Wait: 2 * time.Second}},
		"another is on its way": {false, time.Second, arklet.StateActivated, []arklet.Module{next, wanted},
			Action{Wait: RecheckAfter, NeedsList: true}},
		"nobody knows when": {false, 0, arklet.StateActivated, []arklet.Module{wanted},
			Action{Wait: 2 * time.Second}},
		"what is wanted serves no more": {false, time.Second, arklet.StateBroken, []arklet.Module{wanted},
			Action{Kind: DoUninstall, Module: wanted}},
	} {
		s := Input{
			Now: now, Name: "m", Wanted: c.wants, Drain: 2 * time.Second,
			Terminating: map[string]Terminating{"2": {Since: now, WasReady: c.served}},
			Memory:      Memory{Installed: map[string]Installed{"1": {}, "2": {}}},
			Listed: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: c.state, Latest: arklet.Record{At: now}},
				"2": {Name: "m", Version: "2", State: arklet.StateActivated,
					Latest: arklet.Record{At: now.Add(c.came)}},
				"3": {Name: "m", Version: "3", State: arklet.StateResolved},
			},
		}
		if got := Next(s).Action; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// All Pods of a base go, and the version that answers came when its own Pod was leaving already: requests come to it by
// the Pod of the version that it has taken the place of.
func TestWhatAnswersIsDrainedOfThePodsOfOtherVersions(t *testing.T) {
	now := time.Now()
	gone := Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "2"}}
	for name, c := range map[string]struct {
		served bool // the Pod of version 1
		since  time.Duration
		state  arklet.State // of version 2
		want   Action
	}{
		"it was Ready until now":        {true, 0, arklet.StateActivated, Action{Wait: 2 * time.Second}},
		"it was Ready a while ago":      {true, -2 * time.Second, arklet.StateActivated, gone},
		"it was never Ready":            {false, 0, arklet.StateActivated, gone},
		"what its Pod had does not run": {true, 0, arklet.StateBroken, gone},
	} {
		s := Input{
			Now: now, Name: "m", Drain: 2 * time.Second,
			Terminating: map[string]Terminating{"1": {Since: now.Add(c.since), WasReady: c.served},
				"2": {Since: now.Add(-2 * time.Second)}},
			Memory: Memory{Installed: map[string]Installed{"2": {}}},
			Listed: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: arklet.StateDeactivated,
					Latest: arklet.Record{At: now, Reason: arklet.ReasonSwitched}},
				"2": {Name: "m", Version: "2", State: c.state, Latest: arklet.Record{At: now}},
			},
		}
		if got := Next(s).Action; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Where all versions are active, the one that answers stays for the newest that is wanted, long after its drain, unless
// that can't be had.
func TestWhatAnswersStaysForTheNewest(t *testing.T) {
	now := time.Now()
	serves, next := arklet.Module{Name: "m", Version: "1"}, arklet.Module{Name: "m", Version: "3"}
	for name, c := range map[string]struct {
		failed map[Attempt]Failure
		came   time.Duration // after the one that serves
		want   ActionKind
	}{
		"on its way": {nil, time.Second, NoAction},
		"it failed": {
			map[Attempt]Failure{InstallAttempt(next): {Err: errors.New("boom"), Next: now.Add(time.Minute)}}, time.Second,
			DoUninstall},
		"the other one answers": {nil, -time.Second, DoUninstall},
	} {
		s := Input{
			Now: now, Name: "m", Wanted: []arklet.Module{next, serves}, Drain: 2 * time.Second,
			Requested: []arklet.Module{next, serves},
			Terminating: map[string]Terminating{
				"2": {Since: now.Add(-10 * time.Second), Until: now.Add(10 * time.Second), WasReady: true}},
			Memory: Memory{Installed: map[string]Installed{"1": {}, "2": {InactiveSince: now.Add(-10 * time.Second)}},
				Failed: c.failed},
			Listed: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: arklet.StateActivated, Latest: arklet.Record{At: now}},
				"2": {Name: "m", Version: "2", State: arklet.StateActivated,
					Latest: arklet.Record{At: now.Add(c.came)}},
				"3": {Name: "m", Version: "3", State: arklet.StateResolved},
			},
		}
		if got := Next(s).Action; got.Kind != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// A version is drained from when another answers, also if nobody looked since it was being installed.
func TestTheDrainBeginsWhenAnotherVersionAnswers(t *testing.T) {
	for _, state := range []arklet.State{arklet.StateUnresolved, arklet.StateResolved} {
		t.Run(string(state), func(t *testing.T) { drainedSinceAnotherAnswers(t, state) })
	}
}

func drainedSinceAnotherAnswers(t *testing.T, installing arklet.State) {
	t.Helper()
	began := time.Now()
	serves := arklet.Module{Name: "m", Version: "3"}
	s := Input{
		Now: began, Name: "m", Wanted: []arklet.Module{serves}, Drain: 2 * time.Second,
		Terminating: map[string]Terminating{
			"2": {Since: began.Add(-10 * time.Second), Until: began.Add(10 * time.Second)}},
		Memory: Memory{Installed: map[string]Installed{"2": {}, "3": {}}},
		Listed: map[string]arklet.Biz{
			"2": {Name: "m", Version: "2", State: installing},
			"3": {Name: "m", Version: "3", State: installing},
		},
	}
	Next(s)
	s.Listed["2"] = arklet.Biz{Name: "m", Version: "2", State: arklet.StateActivated,
		Latest: arklet.Record{At: began.Add(time.Second)}}
	s.Listed["3"] = arklet.Biz{Name: "m", Version: "3", State: arklet.StateActivated,
		Latest: arklet.Record{At: began.Add(5 * time.Second)}}
	for n, want := range []ActionKind{NoAction, NoAction, DoUninstall} {
		after := time.Duration(5+n) * time.Second
		s.Now = began.Add(after)
		got := Next(s)
		s.Memory = got.Memory
		if got.Kind != want {
			t.Errorf("%s after the beginning: %+v, want %d", after, got, want)
		}
	}
}

// An uninstall that failed before is forgotten when the base has what the Pod wants all the same: it crashed,
// and installed that jar at its start.
func TestAFailureIsForgottenOnceTheModuleServes(t *testing.T) {
	w := arklet.Module{Name: "m", Version: "1", URL: "new"}
	for jar, forgotten := range map[string]bool{"new": true, "old": false} {
		s := Input{
			Now: time.Now(), Name: "m", Wanted: []arklet.Module{w}, Requested: []arklet.Module{w},
			Listed: map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: arklet.StateActivated}},
			Memory: Memory{
				Installed: map[string]Installed{"1": {URL: jar}},
				Failed: map[Attempt]Failure{
					UninstallAttempt(w): {Err: errors.New("the base has restarted"), Next: time.Now().Add(time.Minute)}},
			},
		}
		do := Next(s)
		if do.Kind != NoAction {
			t.Errorf("with the %s jar it does %d", jar, do.Kind)
		}
		if _, kept := do.Memory.Failed[UninstallAttempt(w)]; kept == forgotten {
			t.Errorf("with the %s jar the failure is kept: %t", jar, kept)
		}
	}
}
