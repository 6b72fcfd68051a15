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

// model simulates a module on a base, and the Pods that request the module. It executes the actions that Next
// returns. Version "static" is preinstalled on the base.
type model struct {
	t    *rapid.T
	mode mode
	http bool
	now  time.Time

	pods           []arklet.Module // modules of the Pods that are not being deleted, the oldest Pod first
	terminating    map[string]TerminatingVersion
	memory         Memory
	listed         map[string]arklet.Biz
	installedJars  map[string]string    // jar URLs by version
	failInstalls   map[string]bool      // whether installs fail, by version followed by the jar URL
	failUninstalls map[string]bool      // versions whose uninstalls fail
	uninstallFirst map[string]bool      // versions whose Pods have the install strategy uninstallThenInstall
	inactiveSince  map[string]time.Time // when the base stopped sending requests to a version
	tick           time.Duration        // counter that makes the times of records distinct

	log []string
}

// mode is the way in which a base handles a new version while another version is active.
type mode int

const (
	activateNew   mode = iota // it switches to the new version
	activateMulti             // it keeps both versions active
	keepOld                   // it keeps the new version deactivated
)

const modelDrain = 2 * time.Second

func (m *model) input() Input {
	in := Input{
		Now: m.now, Name: "biz", Terminating: m.terminating, Memory: m.memory, Listed: m.listed,
		CanSwitch: m.http, Drain: modelDrain,
	}
	for _, w := range slices.Backward(m.pods) {
		if !slices.Contains(in.Wanted, w) {
			in.Wanted = append(in.Wanted, w)
		}
	}
	in.UninstallFirst = len(in.Wanted) > 0 && m.uninstallFirst[in.Wanted[0].Version]
	in.Requested = slices.Clone(in.Wanted)
	for version := range m.terminating {
		in.Requested = append(in.Requested, arklet.Module{Name: "biz", Version: version})
	}
	return in
}

func (m *model) active() (versions []string) {
	for version, biz := range m.listed {
		if biz.State == arklet.StateActivated {
			versions = append(versions, version)
		}
	}
	slices.Sort(versions)
	return versions
}

// runActions executes actions until Next returns NoAction. It returns Action.Wait of that action.
func (m *model) runActions() (wait time.Duration) {
	for range 100 {
		s := m.input()
		before, terminating := s.Memory.clone(), maps.Clone(m.terminating)
		decision := Next(s)
		if !reflect.DeepEqual(before, s.Memory) || !maps.Equal(m.terminating, terminating) {
			m.t.Fatalf("Next has changed its input:\n%s", m.history())
		}
		action := decision.Action
		m.memory = decision.Memory
		s.Memory = m.memory
		m.log = append(m.log, fmt.Sprintf("%s: do %d %s %s, wait %s; list %v, wants %v", m.now.Format("04:05"),
			action.Kind,
			action.Module.Identity(), action.Module.URL, action.Wait, m.states(), m.pods))
		if action.Kind == NoAction {
			if r := m.memory.Replacing; r != nil && r.NotReady.IsZero() {
				m.memory.Replacing = &Replacement{Module: r.Module, UninstallFirst: r.UninstallFirst, NotReady: m.now}
				continue
			}
			return action.Wait
		}
		wasActive := len(m.active()) > 0
		m.execute(s, action)
		if wasActive && len(m.active()) == 0 && len(m.pods) > 0 {
			m.checkOutage(s, action)
		}
	}
	m.t.Fatalf("still active after 100 actions:\n%s", m.history())
	return 0
}

// checkOutage fails the test if an action left the base without an active version, unless this is allowed.
func (m *model) checkOutage(s Input, action Action) {
	newest := s.Wanted[0]
	kept := slices.ContainsFunc(s.Wanted,
		func(w arklet.Module) bool { return s.Listed[w.Version].State == arklet.StateDeactivated })
	switch {
	case (kept || action.Kind == UninstallConflicting) && !m.http && m.mode == keepOld: // unavoidable over MQTT
	case action.UninstallFirst, s.UninstallFirst && !s.IsWanted(action.Module.Version): // as requested
		// unavoidable: the same version
	case action.Module.Version == newest.Version && (&planner{Input: s}).needsReinstall(newest):
	case action.Kind == UninstallConflicting && !m.http && m.retainedLongEnough(s, action):
	case m.allFail(s) && m.retainedLongEnough(s, action): // no requested version can be installed
	default:
		m.t.Fatalf("no version is active although %s can be installed:\n%s", newest.Identity(), m.history())
	}
}

// retainedLongEnough reports whether an unwanted version has waited for its successor for the maximum time.
func (m *model) retainedLongEnough(s Input, action Action) bool {
	until := s.Memory.Installed[action.Module.Version].UnwantedSince.Add(MaxRetain)
	if l, leaves := m.terminating[action.Module.Version]; leaves {
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
	for version, biz := range m.listed {
		out[version] = string(biz.State) + "(" + m.installedJars[version] + ")"
	}
	return out
}

func (m *model) history() (text string) {
	for _, line := range m.log {
		text += line + "\n"
	}
	return text
}

func (m *model) set(version string, state arklet.State, reason string) {
	if state == arklet.StateDeactivated && reason == arklet.ReasonSwitched {
		m.inactiveSince[version] = m.now
	}
	if state == arklet.StateActivated { // the version receives the requests from now on
		for _, v := range m.active() {
			if !m.isShadowed(v) {
				m.inactiveSince[v] = m.now
			}
		}
	}
	m.tick++
	m.listed[version] = arklet.Biz{Name: "biz", Version: version, State: state,
		Latest: arklet.Record{At: m.now.Add(m.tick), State: state, Reason: reason}}
}

// isShadowed reports whether a version is active but another version became active later.
func (m *model) isShadowed(version string) bool {
	biz := m.listed[version]
	return biz.State == arklet.StateActivated &&
		slices.ContainsFunc(m.active(), func(v string) bool { return m.listed[v].Latest.At.After(biz.Latest.At) })
}

func (m *model) execute(s Input, action Action) {
	fail := func(a Attempt) {
		f := m.memory.Failed[a]
		f.Err, f.At, f.Attempts = errors.New("boom"), m.now, f.Attempts+1
		f.Next = m.now.Add(min(500*time.Millisecond<<(f.Attempts-1), 5*time.Minute))
		m.memory.Failed[a] = f
	}
	w := action.Module
	for _, uninstalled := range []arklet.Module{action.Conflicting, action.Module} {
		inactive := m.listed[uninstalled.Version].State == arklet.StateDeactivated ||
			m.isShadowed(uninstalled.Version) && !s.IsWanted(uninstalled.Version)
		mayProcess := inactive && m.now.Before(m.inactiveSince[uninstalled.Version].Add(modelDrain))
		if mayProcess && (action.Kind == DoUninstall || action.Kind == UninstallConflicting) {
			m.t.Fatalf("%s is uninstalled while it may still process requests:\n%s", uninstalled.Identity(),
				m.history())
		}
	}
	switch action.Kind {
	case DoInstall:
		if _, listed := m.listed[w.Version]; listed {
			m.t.Fatalf("%s is installed although the base lists it:\n%s", w.Identity(), m.history())
		}
		if action.UninstallFirst {
			m.uninstallAll(s)
		}
		m.memory.Installed[w.Version] = InstalledVersion{URL: w.URL}
		if r := m.memory.Replacing; r != nil && r.Module == w {
			m.memory.Replacing = nil
		}
		if m.failInstalls[w.Version+w.URL] {
			fail(InstallAttempt(w))
			return
		}
		delete(m.memory.Failed, InstallAttempt(w))
		m.installedJars[w.Version] = w.URL
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
		if !m.failUninstalls[action.Conflicting.Version] { // otherwise it still conflicts later
			delete(m.listed, action.Conflicting.Version)
		}
		if m.failUninstalls[w.Version] {
			fail(UninstallAttempt(w))
			return
		}
		delete(m.listed, w.Version)
	case DoUninstall:
		if _, listed := m.listed[w.Version]; !listed {
			m.t.Fatalf("%s is uninstalled although the base does not list it:\n%s", w.Identity(), m.history())
		}
		if w.Version == "static" && !s.IsWanted("static") {
			m.t.Fatalf("a version that no Pod requested is uninstalled:\n%s", m.history())
		}
		if m.failUninstalls[w.Version] {
			fail(UninstallAttempt(w))
			return
		}
		delete(m.listed, w.Version)
	case AcquireReplacePermit:
		m.memory.Replacing = &Replacement{Module: w, UninstallFirst: action.UninstallFirst}
	case NoAction, RequestList:
	}
}

// uninstallAll uninstalls all versions, as a base does for the install strategy uninstallThenInstall. It fails the test
// if the Pods of the active version are not drained.
func (m *model) uninstallAll(s Input) {
	for _, version := range m.active() {
		r := s.Memory.Replacing
		drained := r != nil && r.UninstallFirst && !r.NotReady.IsZero() && !m.now.Before(r.NotReady.Add(modelDrain))
		if s.IsWanted(version) && !drained {
			m.t.Fatalf("%s is uninstalled before its Pods are drained:\n%s", version, m.history())
		}
	}
	clear(m.listed)
}

// TestRandomActions runs random sequences of Pod changes, failures and restarts. The base must always have an active
// version while a requested version can be installed. At the end, the version of the newest Pod must be active, and
// no unwanted version may remain.
func TestRandomActions(t *testing.T) {
	for range 20 { // each checks 100 sequences
		rapid.Check(t, checkPlan)
	}
}

func checkPlan(t *rapid.T) {
	m := &model{
		t: t, mode: rapid.SampledFrom([]mode{activateNew, activateMulti, keepOld}).Draw(t, "mode"),
		http:        rapid.Bool().Draw(t, "http"),
		now:         time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC),
		terminating: map[string]TerminatingVersion{}, memory: NewMemory(), listed: map[string]arklet.Biz{},
		installedJars: map[string]string{},
		failInstalls:  map[string]bool{}, failUninstalls: map[string]bool{}, inactiveSince: map[string]time.Time{},
		uninstallFirst: map[string]bool{},
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
				m.terminating[w.Version] = TerminatingVersion{Since: m.now, Until: m.now.Add(25 * time.Second),
					SuccessorExpected: rapid.Bool().Draw(t, "successor expected")}
			}
		},
		"end the grace periods": func(*rapid.T) { clear(m.terminating) },
		"change install failures": func(t *rapid.T) {
			m.failInstalls[version.Draw(t, "version")+jar.Draw(t, "jar")] = rapid.Bool().Draw(t, "fails")
		},
		"change uninstall failures": func(t *rapid.T) {
			m.failUninstalls[version.Draw(t, "version")] = rapid.Bool().Draw(t, "fails")
		},
		"change an install strategy": func(t *rapid.T) {
			m.uninstallFirst[version.Draw(t, "version")] = rapid.Bool().Draw(t, "uninstallThenInstall")
		},
		"restart the base": func(*rapid.T) {
			clear(m.listed)
			clear(m.memory.Failed)
		},
		"uninstall by another client": func(t *rapid.T) { delete(m.listed, version.Draw(t, "version")) },
		"restart the controller": func(*rapid.T) {
			for version, i := range m.memory.Installed {
				m.memory.Installed[version] = InstalledVersion{URL: i.URL}
			}
			clear(m.memory.Failed)
			m.memory.Replacing = nil
		},
		"advance the time": func(t *rapid.T) {
			m.runActions()
			m.now = m.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			m.runActions()
		},
	})
	clear(m.failInstalls)
	clear(m.failUninstalls)
	clear(m.terminating)
	for range 200 {
		wait := m.runActions()
		if wait == 0 {
			break
		}
		m.now = m.now.Add(wait)
	}
	m.checkFinalState()
}

func (m *model) checkFinalState() {
	var want arklet.Module
	kept := map[string]bool{"static": true}
	for _, w := range m.pods {
		want = w
		kept[w.Version] = true
	}
	for version := range maps.Keys(m.listed) {
		if !kept[version] {
			m.t.Fatalf("%s remains although no Pod requests it:\n%s", version, m.history())
		}
	}
	if len(m.pods) == 0 {
		return
	}
	biz := m.listed[want.Version]
	others := slices.ContainsFunc(m.active(), func(v string) bool { return v != want.Version })
	if biz.State != arklet.StateActivated && (m.http || m.mode != keepOld || !others) {
		m.t.Fatalf("%s is %q, want activated:\n%s", want.Identity(), biz.State, m.history())
	}
	if biz.State == arklet.StateActivated && m.installedJars[want.Version] != want.URL {
		m.t.Fatalf("%s is active from jar %s, want %s:\n%s", want.Identity(), m.installedJars[want.Version], want.URL,
			m.history())
	}
}

// TestActiveVersionStaysWhileSuccessorIsDrained plans an uninstall of an active version whose grace period has ended,
// while its successor must be reinstalled from another jar. The controller has just started, so the installed jar of
// the successor may still process requests. The active version must stay until this jar is drained.
func TestActiveVersionStaysWhileSuccessorIsDrained(t *testing.T) {
	now := time.Now()
	s := Input{
		Now: now, Name: "m", Wanted: []arklet.Module{{Name: "m", Version: "2", URL: "b"}}, CanSwitch: true,
		Drain:       2 * time.Second,
		Terminating: map[string]TerminatingVersion{"1": {Since: now.Add(-25 * time.Second), Until: now}},
		Memory:      Memory{Installed: map[string]InstalledVersion{"1": {URL: "a"}, "2": {URL: "a"}}},
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

// TestActiveVersionStaysWhileEndpointsAreOutOfDate checks that an active version is not uninstalled while the
// endpoints are outdated, because the version may still receive requests.
func TestActiveVersionStaysWhileEndpointsAreOutOfDate(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		state arklet.State
		lag   time.Duration
		want  Action
	}{
		"up to date": {arklet.StateActivated, 0,
			Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "1"}}},
		"out of date":                   {arklet.StateActivated, 5 * time.Second, Action{Wait: RecheckInterval}},
		"out of date for a millisecond": {arklet.StateActivated, time.Millisecond, Action{Wait: time.Millisecond}},
		"out of date, but deactivated": {arklet.StateDeactivated, 5 * time.Second,
			Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "1"}}},
	} {
		s := Input{Now: now, Name: "m", Terminating: map[string]TerminatingVersion{},
			Memory: Memory{Installed: map[string]InstalledVersion{"1": {}}},
			Listed: map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: c.state}}, EndpointLag: c.lag}
		if got := Next(s).Action; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestExtraActiveVersionIsNotDrained simulates a base that keeps all versions active, so that the version that was
// activated last receives the requests. If this version was activated when its Pod was already terminating, it must
// be uninstalled immediately. If it was activated before the requested version, or if its Pod was Ready, it must be
// drained first.
func TestExtraActiveVersionIsNotDrained(t *testing.T) {
	now := time.Now()
	wanted, next := arklet.Module{Name: "m", Version: "1"}, arklet.Module{Name: "m", Version: "3"}
	uninstall := Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "2"}}
	for name, c := range map[string]struct {
		wasReady bool
		after    time.Duration // activation time of the tested version relative to the requested version
		state    arklet.State  // state of the requested version
		wants    []arklet.Module
		want     Action
	}{
		"activated later": {false, time.Second, arklet.StateActivated, []arklet.Module{wanted}, uninstall},
		"was Ready": {true, time.Second, arklet.StateActivated, []arklet.Module{wanted},
			Action{Wait: 2 * time.Second}},
		"activated first": {false, -time.Second, arklet.StateActivated, []arklet.Module{wanted},
			Action{Wait: 2 * time.Second}},
		"newer version is being installed": {false, time.Second, arklet.StateActivated, []arklet.Module{next, wanted},
			Action{Wait: RecheckInterval, NeedsList: true}},
		"activated at the same time": {false, 0, arklet.StateActivated, []arklet.Module{wanted},
			Action{Wait: 2 * time.Second}},
		"requested version is broken": {false, time.Second, arklet.StateBroken, []arklet.Module{wanted},
			Action{Kind: DoUninstall, Module: wanted}},
	} {
		s := Input{
			Now: now, Name: "m", Wanted: c.wants, Drain: 2 * time.Second,
			Terminating: map[string]TerminatingVersion{"2": {Since: now, WasReady: c.wasReady}},
			Memory:      Memory{Installed: map[string]InstalledVersion{"1": {}, "2": {}}},
			Listed: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: c.state, Latest: arklet.Record{At: now}},
				"2": {Name: "m", Version: "2", State: arklet.StateActivated,
					Latest: arklet.Record{At: now.Add(c.after)}},
				"3": {Name: "m", Version: "3", State: arklet.StateResolved},
			},
		}
		if got := Next(s).Action; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestActiveVersionIsDrainedOfRequestsToOtherPods deletes all Pods of a base. The active version was activated when
// its own Pod was already terminating. It still receives the requests that are sent to the Pod of the previous
// version, so it must be drained.
func TestActiveVersionIsDrainedOfRequestsToOtherPods(t *testing.T) {
	now := time.Now()
	uninstall := Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "2"}}
	for name, c := range map[string]struct {
		wasReady bool // whether the Pod of version 1 was Ready
		since    time.Duration
		state    arklet.State // state of version 2
		want     Action
	}{
		"Pod was Ready until now": {true, 0, arklet.StateActivated, Action{Wait: 2 * time.Second}},
		"Pod was Ready 2 s ago":   {true, -2 * time.Second, arklet.StateActivated, uninstall},
		"Pod was never Ready":     {false, 0, arklet.StateActivated, uninstall},
		"version is broken":       {true, 0, arklet.StateBroken, uninstall},
	} {
		s := Input{
			Now: now, Name: "m", Drain: 2 * time.Second,
			Terminating: map[string]TerminatingVersion{"1": {Since: now.Add(c.since), WasReady: c.wasReady},
				"2": {Since: now.Add(-2 * time.Second)}},
			Memory: Memory{Installed: map[string]InstalledVersion{"2": {}}},
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

// TestActiveVersionWaitsForTheNewestVersion simulates a base that keeps all versions active. The version that
// receives the requests must not be uninstalled before the newest requested version is active, even after its drain.
// If the newest version has failed, the version must be uninstalled.
func TestActiveVersionWaitsForTheNewestVersion(t *testing.T) {
	now := time.Now()
	serves, next := arklet.Module{Name: "m", Version: "1"}, arklet.Module{Name: "m", Version: "3"}
	for name, c := range map[string]struct {
		failed map[Attempt]Failure
		after  time.Duration // activation time of the tested version relative to the older requested version
		want   ActionKind
	}{
		"newest version is being installed": {nil, time.Second, NoAction},
		"newest version failed": {
			map[Attempt]Failure{InstallAttempt(next): {Err: errors.New("boom"), Next: now.Add(time.Minute)}},
			time.Second,
			DoUninstall},
		"another version receives the requests": {nil, -time.Second, DoUninstall},
	} {
		s := Input{
			Now: now, Name: "m", Wanted: []arklet.Module{next, serves}, Drain: 2 * time.Second,
			Requested: []arklet.Module{next, serves},
			Terminating: map[string]TerminatingVersion{
				"2": {Since: now.Add(-10 * time.Second), Until: now.Add(10 * time.Second), WasReady: true}},
			Memory: Memory{Installed: map[string]InstalledVersion{"1": {},
				"2": {InactiveSince: now.Add(-10 * time.Second)}},
				Failed: c.failed},
			Listed: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: arklet.StateActivated, Latest: arklet.Record{At: now}},
				"2": {Name: "m", Version: "2", State: arklet.StateActivated,
					Latest: arklet.Record{At: now.Add(c.after)}},
				"3": {Name: "m", Version: "3", State: arklet.StateResolved},
			},
		}
		if got := Next(s).Action; got.Kind != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// TestDrainBeginsWhenAnotherVersionReceivesRequests checks that the drain of a version begins when another version
// starts to receive the requests, even if Next is not called in between.
func TestDrainBeginsWhenAnotherVersionReceivesRequests(t *testing.T) {
	for _, state := range []arklet.State{arklet.StateUnresolved, arklet.StateResolved} {
		t.Run(string(state), func(t *testing.T) { testDrainStart(t, state) })
	}
}

func testDrainStart(t *testing.T, installing arklet.State) {
	t.Helper()
	began := time.Now()
	serves := arklet.Module{Name: "m", Version: "3"}
	s := Input{
		Now: began, Name: "m", Wanted: []arklet.Module{serves}, Drain: 2 * time.Second,
		Terminating: map[string]TerminatingVersion{
			"2": {Since: began.Add(-10 * time.Second), Until: began.Add(10 * time.Second)}},
		Memory: Memory{Installed: map[string]InstalledVersion{"2": {}, "3": {}}},
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
			t.Errorf("after %s: %+v, want %d", after, got, want)
		}
	}
}

// TestFailureIsRemovedWhenTheModuleIsActive checks that Next removes the failure of an uninstall if the base has the
// requested jar, because the base may have restarted and installed the jar as part of its baseline.
func TestFailureIsRemovedWhenTheModuleIsActive(t *testing.T) {
	w := arklet.Module{Name: "m", Version: "1", URL: "new"}
	for jar, forgotten := range map[string]bool{"new": true, "old": false} {
		s := Input{
			Now: time.Now(), Name: "m", Wanted: []arklet.Module{w}, Requested: []arklet.Module{w},
			Listed: map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: arklet.StateActivated}},
			Memory: Memory{
				Installed: map[string]InstalledVersion{"1": {URL: jar}},
				Failed: map[Attempt]Failure{
					UninstallAttempt(w): {Err: errors.New("the base has restarted"),
						Next: time.Now().Add(time.Minute)}},
			},
		}
		action := Next(s)
		if action.Kind != NoAction {
			t.Errorf("with the %s jar: action %d, want none", jar, action.Kind)
		}
		if _, kept := action.Memory.Failed[UninstallAttempt(w)]; kept == forgotten {
			t.Errorf("with the %s jar: failure is kept is %t, want %t", jar, kept, !forgotten)
		}
	}
}

// TestUninstallFirst checks the actions for a newest Pod with the install strategy uninstallThenInstall. The Pods of
// the old version are drained before the install. The old version is neither installed again nor retained.
func TestUninstallFirst(t *testing.T) {
	now := time.Now()
	old, next := arklet.Module{Name: "m", Version: "1"}, arklet.Module{Name: "m", Version: "2"}
	install := Action{Kind: DoInstall, Module: next, UninstallFirst: true}
	acquire := install
	acquire.Kind = AcquireReplacePermit
	retry := install
	retry.Retry = true
	replacing := func(notReady time.Time) *Replacement {
		return &Replacement{Module: next, UninstallFirst: true, NotReady: notReady}
	}
	failed := func(next time.Time) map[Attempt]Failure {
		return map[Attempt]Failure{InstallAttempt(arklet.Module{Name: "m", Version: "2"}): {Err: errors.New("boom"),
			Next: next}}
	}
	for name, c := range map[string]struct {
		terminating bool // whether the Pod of the old version is being deleted
		gone        bool // whether the base has uninstalled the old version
		replacing   *Replacement
		failed      map[Attempt]Failure
		want        Action
	}{
		"no permit yet":        {want: acquire},
		"a Pod is still Ready": {replacing: replacing(time.Time{}), want: Action{}},
		"drain not over":       {replacing: replacing(now.Add(-time.Second)), want: Action{Wait: time.Second}},
		"drained":              {replacing: replacing(now.Add(-2 * time.Second)), want: install},
		"old version gone":     {gone: true, want: install},
		"failed, next attempt later": {gone: true, failed: failed(now.Add(time.Minute)),
			want: Action{Wait: time.Minute}},
		"failed, next attempt due": {gone: true, failed: failed(now), want: retry},
		"old Pod is being deleted": {terminating: true,
			want: Action{Kind: DoUninstall, Module: arklet.Module{Name: "m", Version: "1"}}},
	} {
		s := Input{Now: now, Name: "m", Wanted: []arklet.Module{next, old}, UninstallFirst: true,
			Requested: []arklet.Module{next, old}, Drain: 2 * time.Second,
			Memory: Memory{Installed: map[string]InstalledVersion{"1": {}}, Replacing: c.replacing, Failed: c.failed},
			Listed: map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: arklet.StateActivated}}}
		if c.terminating {
			s.Wanted = s.Wanted[:1]
			s.Terminating = map[string]TerminatingVersion{
				"1": {Since: now.Add(-2 * time.Second), Until: now.Add(20 * time.Second)}}
		}
		if c.gone {
			s.Listed = nil
		}
		if got := Next(s).Action; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
