package vpod

import (
	"errors"
	"fmt"
	"maps"
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
	leaving map[string]departure
	placed  map[string]*placement
	list    map[string]arklet.Biz
	jars    map[string]string // really installed, by version
	failed  map[attempt]failure
	broken  map[string]bool      // versions whose installs fail
	stuck   map[string]bool      // versions whose uninstalls fail
	ceased  map[string]time.Time // when requests went from a version to another
	tick    time.Duration        // that no two records are of the same time

	replacing *replacement
	log       []string
}

const modelDrain = 2 * time.Second

func (m *model) situation() situation {
	s := situation{
		now: m.now, name: "biz", leaving: m.leaving, placed: m.placed, list: m.list, failed: m.failed,
		canSwitch: m.http, drain: modelDrain,
	}
	for _, w := range slices.Backward(m.pods) {
		if !slices.Contains(s.wants, w) {
			s.wants = append(s.wants, w)
		}
		if _, there := m.list[w.Version]; there && m.placed[w.Version] == nil {
			m.placed[w.Version] = &placement{}
		}
	}
	for version, p := range m.placed {
		if _, there := m.list[version]; !there && m.now.After(p.unsettled) {
			delete(m.placed, version)
		}
	}
	if r := m.replacing; r != nil && (len(s.wants) == 0 || s.wants[0] != r.module) {
		m.replacing = nil
	}
	s.replacing = m.replacing
	return s
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
		s := m.situation()
		do := s.next()
		m.log = append(m.log, fmt.Sprintf("%s: do %d %s %s, wait %s; list %v, wants %v", m.now.Format("04:05"), do.do, do.module.Identity(), do.module.URL, do.wait, m.states(), m.pods))
		if do.do == rest {
			if m.replacing != nil && m.replacing.notReady.IsZero() {
				m.replacing.notReady = m.now
				continue
			}
			return do.wait
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
func (m *model) mayBeWithout(s situation, do step) {
	newest := s.wants[0]
	kept := slices.ContainsFunc(s.wants, func(w arklet.Module) bool { return s.list[w.Version].State == arklet.StateDeactivated })
	switch {
	case (kept || do.do == makeWay) && !m.http && m.mode == keepOld: // the protocol has no other way
	case do.module.Version == newest.Version && s.differs(newest): // nor here
	case do.do == makeWay && !m.http && m.stayed(s, do):
	case m.allFail(s) && m.stayed(s, do): // nothing that is wanted can be had
	default:
		m.t.Fatalf("the base is without the module although %s was on its way:\n%s", newest.Identity(), m.story())
	}
}

// stayed says whether an active version that no Pod wants has stayed for as long as it may.
func (m *model) stayed(s situation, do step) bool {
	until := s.placed[do.module.Version].unwanted.Add(expectedFor)
	if l, leaves := m.leaving[do.module.Version]; leaves {
		until = l.until
	}
	return !m.now.Before(until)
}

func (m *model) allFail(s situation) bool {
	return !slices.ContainsFunc(s.wants, func(w arklet.Module) bool {
		return m.failed[install(w)].err == nil && m.failed[uninstall(w)].err == nil
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
	if state == arklet.StateDeactivated && reason == reasonSwitched {
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
	m.list[version] = arklet.Biz{Name: "biz", Version: version, State: state, Latest: arklet.Record{At: m.now.Add(m.tick), State: state, Reason: reason}}
}

// passedBy says whether a version is active and another became active after it.
func (m *model) passedBy(version string) bool {
	biz := m.list[version]
	return biz.State == arklet.StateActivated && slices.ContainsFunc(m.active(), func(v string) bool { return m.list[v].Latest.At.After(biz.Latest.At) })
}

func (m *model) carryOut(s situation, do step) {
	fail := func(a attempt) {
		f := m.failed[a]
		f.err, f.at, f.attempts = fmt.Errorf("boom"), m.now, f.attempts+1
		f.next = m.now.Add(backoff(1, f.attempts, retryAtMost))
		m.failed[a] = f
	}
	w := do.module
	for _, goes := range []arklet.Module{do.way, do.module} {
		ceased := m.list[goes.Version].State == arklet.StateDeactivated || m.passedBy(goes.Version) && !s.wanted(goes.Version)
		works := ceased && m.now.Before(m.ceased[goes.Version].Add(modelDrain))
		if works && (do.do == doUninstall || do.do == makeWay) {
			m.t.Fatalf("%s is uninstalled, which may yet work on requests:\n%s", goes.Identity(), m.story())
		}
	}
	switch do.do {
	case doInstall:
		if _, there := m.list[w.Version]; there {
			m.t.Fatalf("%s is installed although it is there:\n%s", w.Identity(), m.story())
		}
		m.placed[w.Version] = &placement{url: w.URL}
		if m.replacing != nil && m.replacing.module == w {
			m.replacing = nil
		}
		if m.broken[w.Version+w.URL] {
			fail(install(w))
			return
		}
		delete(m.failed, install(w))
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
	case doSwitch:
		for _, v := range m.active() {
			m.set(v, arklet.StateDeactivated, "SWITCHED")
		}
		m.set(w.Version, arklet.StateActivated, "SWITCHED")
	case makeWay:
		if !m.stuck[do.way.Version] { // else it is in the way later
			delete(m.list, do.way.Version)
		}
		if m.stuck[w.Version] {
			fail(uninstall(w))
			return
		}
		delete(m.list, w.Version)
	case doUninstall:
		if _, there := m.list[w.Version]; !there {
			m.t.Fatalf("%s is uninstalled although it is not there:\n%s", w.Identity(), m.story())
		}
		if w.Version == "static" && !s.wanted("static") {
			m.t.Fatalf("what no Pod asked for is uninstalled:\n%s", m.story())
		}
		if m.stuck[w.Version] {
			fail(uninstall(w))
			return
		}
		delete(m.list, w.Version)
	case beginReplace:
		m.replacing = &replacement{module: w}
	case rest, ask:
	}
}

// Whatever Pods come and go, whatever fails, restarts and is forgotten: the base is never without
// the module while one that is wanted can be had, comes to what the newest Pod wants, and keeps
// nothing of what Pods had put there.
func TestPlan(t *testing.T) {
	for range 200 { // of a hundred each
		rapid.Check(t, checkPlan)
	}
}

func checkPlan(t *rapid.T) {
	m := &model{
		t: t, mode: rapid.SampledFrom([]mode{activateNew, activateMulti, keepOld}).Draw(t, "mode"), http: rapid.Bool().Draw(t, "http"),
		now:     time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC),
		leaving: map[string]departure{}, placed: map[string]*placement{}, list: map[string]arklet.Biz{}, jars: map[string]string{},
		failed: map[attempt]failure{}, broken: map[string]bool{}, stuck: map[string]bool{}, ceased: map[string]time.Time{},
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
			delete(m.failed, install(w))
		},
		"delete": func(t *rapid.T) {
			if len(m.pods) == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.pods)-1).Draw(t, "which")
			w := m.pods[i]
			m.pods = slices.Delete(m.pods, i, i+1)
			if rapid.Bool().Draw(t, "with grace") {
				m.leaving[w.Version] = departure{since: m.now, until: m.now.Add(25 * time.Second), comes: rapid.Bool().Draw(t, "a Pod may come")}
			}
		},
		"its grace is over": func(*rapid.T) { clear(m.leaving) },
		"break": func(t *rapid.T) {
			m.broken[version.Draw(t, "version")+jar.Draw(t, "jar")] = rapid.Bool().Draw(t, "broken")
		},
		"stick": func(t *rapid.T) { m.stuck[version.Draw(t, "version")] = rapid.Bool().Draw(t, "stuck") },
		"restart the base": func(*rapid.T) {
			clear(m.list)
			clear(m.failed)
		},
		"somebody uninstalls": func(t *rapid.T) { delete(m.list, version.Draw(t, "version")) },
		"restart the controller": func(*rapid.T) {
			for _, p := range m.placed {
				*p = placement{url: p.url}
			}
			clear(m.failed)
			m.replacing = nil
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
	s := situation{
		now: now, name: "m", wants: []arklet.Module{{Name: "m", Version: "2", URL: "b"}}, canSwitch: true, drain: 2 * time.Second, failed: map[attempt]failure{},
		leaving: map[string]departure{"1": {since: now.Add(-25 * time.Second), until: now}},
		placed:  map[string]*placement{"1": {url: "a"}, "2": {url: "a"}},
		list: map[string]arklet.Biz{
			"1": {Name: "m", Version: "1", State: arklet.StateActivated},
			"2": {Name: "m", Version: "2", State: arklet.StateDeactivated, Latest: arklet.Record{Reason: reasonSwitched}},
		},
	}
	for _, tc := range []struct {
		after time.Duration
		want  step
	}{
		{0, step{wait: time.Second}},
		{2 * time.Second, step{do: doUninstall, module: arklet.Module{Name: "m", Version: "2", URL: "b"}}},
	} {
		s.now = now.Add(tc.after)
		if got := s.next(); got != tc.want {
			t.Errorf("after %s: %+v, want %+v", tc.after, got, tc.want)
		}
	}
}

// Requests may go to an active version for as long as endpoints are out of date.
func TestNothingActiveGoesWhileEndpointsAreOutOfDate(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		state     arklet.State
		unsettled time.Duration
		want      step
	}{
		"settled":                      {arklet.StateActivated, 0, step{do: doUninstall, module: arklet.Module{Name: "m", Version: "1"}}},
		"out of date":                  {arklet.StateActivated, 5 * time.Second, step{wait: recheckAfter}},
		"for a moment":                 {arklet.StateActivated, time.Millisecond, step{wait: time.Millisecond}},
		"out of date, but deactivated": {arklet.StateDeactivated, 5 * time.Second, step{do: doUninstall, module: arklet.Module{Name: "m", Version: "1"}}},
	} {
		s := situation{now: now, name: "m", leaving: map[string]departure{}, placed: map[string]*placement{"1": {}}, failed: map[attempt]failure{},
			list: map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: c.state}}, unsettled: c.unsettled}
		if got := s.next(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A base that keeps all versions active has the newest answer. One that came when its Pod was leaving already
// goes at once; one that came first, or whose Pod was Ready, is drained.
func TestAnIntruderIsNotDrained(t *testing.T) {
	now := time.Now()
	wanted, next := arklet.Module{Name: "m", Version: "1"}, arklet.Module{Name: "m", Version: "3"}
	gone := step{do: doUninstall, module: arklet.Module{Name: "m", Version: "2"}}
	for name, c := range map[string]struct {
		served bool
		came   time.Duration // after what is wanted
		state  arklet.State  // of what is wanted
		wants  []arklet.Module
		want   step
	}{
		"came late":                     {false, time.Second, arklet.StateActivated, []arklet.Module{wanted}, gone},
		"was Ready":                     {true, time.Second, arklet.StateActivated, []arklet.Module{wanted}, step{wait: 2 * time.Second}},
		"came first":                    {false, -time.Second, arklet.StateActivated, []arklet.Module{wanted}, step{wait: 2 * time.Second}},
		"another is on its way":         {false, time.Second, arklet.StateActivated, []arklet.Module{next, wanted}, step{wait: recheckAfter, look: true}},
		"nobody knows when":             {false, 0, arklet.StateActivated, []arklet.Module{wanted}, step{wait: 2 * time.Second}},
		"what is wanted serves no more": {false, time.Second, arklet.StateBroken, []arklet.Module{wanted}, step{do: doUninstall, module: wanted}},
	} {
		s := situation{
			now: now, name: "m", wants: c.wants, drain: 2 * time.Second, failed: map[attempt]failure{},
			leaving: map[string]departure{"2": {since: now, served: c.served}}, placed: map[string]*placement{"1": {}, "2": {}},
			list: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: c.state, Latest: arklet.Record{At: now}},
				"2": {Name: "m", Version: "2", State: arklet.StateActivated, Latest: arklet.Record{At: now.Add(c.came)}},
				"3": {Name: "m", Version: "3", State: arklet.StateResolved},
			},
		}
		if got := s.next(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// All Pods of a base go, and the version that answers came when its own Pod was leaving already: requests come to it by
// the Pod of the version that it has taken the place of.
func TestWhatAnswersIsDrainedOfThePodsOfOtherVersions(t *testing.T) {
	now := time.Now()
	gone := step{do: doUninstall, module: arklet.Module{Name: "m", Version: "2"}}
	for name, c := range map[string]struct {
		served bool // the Pod of version 1
		since  time.Duration
		state  arklet.State // of version 2
		want   step
	}{
		"it was Ready until now":        {true, 0, arklet.StateActivated, step{wait: 2 * time.Second}},
		"it was Ready a while ago":      {true, -2 * time.Second, arklet.StateActivated, gone},
		"it was never Ready":            {false, 0, arklet.StateActivated, gone},
		"what its Pod had does not run": {true, 0, arklet.StateBroken, gone},
	} {
		s := situation{
			now: now, name: "m", drain: 2 * time.Second, failed: map[attempt]failure{},
			leaving: map[string]departure{"1": {since: now.Add(c.since), served: c.served}, "2": {since: now.Add(-2 * time.Second)}},
			placed:  map[string]*placement{"2": {}},
			list: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: arklet.StateDeactivated, Latest: arklet.Record{At: now, Reason: reasonSwitched}},
				"2": {Name: "m", Version: "2", State: c.state, Latest: arklet.Record{At: now}},
			},
		}
		if got := s.next(); got != c.want {
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
		failed map[attempt]failure
		came   time.Duration // after the one that serves
		want   action
	}{
		"on its way":            {map[attempt]failure{}, time.Second, rest},
		"it failed":             {map[attempt]failure{install(next): {err: errors.New("boom"), next: now.Add(time.Minute)}}, time.Second, doUninstall},
		"the other one answers": {map[attempt]failure{}, -time.Second, doUninstall},
	} {
		s := situation{
			now: now, name: "m", wants: []arklet.Module{next, serves}, drain: 2 * time.Second, failed: c.failed,
			leaving: map[string]departure{"2": {since: now.Add(-10 * time.Second), until: now.Add(10 * time.Second), served: true}},
			placed:  map[string]*placement{"1": {}, "2": {ceased: now.Add(-10 * time.Second)}},
			list: map[string]arklet.Biz{
				"1": {Name: "m", Version: "1", State: arklet.StateActivated, Latest: arklet.Record{At: now}},
				"2": {Name: "m", Version: "2", State: arklet.StateActivated, Latest: arklet.Record{At: now.Add(c.came)}},
				"3": {Name: "m", Version: "3", State: arklet.StateResolved},
			},
		}
		if got := s.next(); got.do != c.want {
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
	s := situation{
		now: began, name: "m", wants: []arklet.Module{serves}, drain: 2 * time.Second, failed: map[attempt]failure{},
		leaving: map[string]departure{"2": {since: began.Add(-10 * time.Second), until: began.Add(10 * time.Second)}},
		placed:  map[string]*placement{"2": {}, "3": {}},
		list: map[string]arklet.Biz{
			"2": {Name: "m", Version: "2", State: installing},
			"3": {Name: "m", Version: "3", State: installing},
		},
	}
	s.next()
	s.list["2"] = arklet.Biz{Name: "m", Version: "2", State: arklet.StateActivated, Latest: arklet.Record{At: began.Add(time.Second)}}
	s.list["3"] = arklet.Biz{Name: "m", Version: "3", State: arklet.StateActivated, Latest: arklet.Record{At: began.Add(5 * time.Second)}}
	for n, want := range []action{rest, rest, doUninstall} {
		after := time.Duration(5+n) * time.Second
		s.now = began.Add(after)
		if got := s.next(); got.do != want {
			t.Errorf("%s after the beginning: %+v, want %d", after, got, want)
		}
	}
}

// An uninstall that failed before is forgotten when the base has what the Pod wants all the same: it crashed,
// and installed that jar at its start.
func TestAFailureIsForgottenOnceTheModuleServes(t *testing.T) {
	w := arklet.Module{Name: "m", Version: "1", URL: "new"}
	for jar, forgotten := range map[string]bool{"new": true, "old": false} {
		s := situation{
			now: time.Now(), name: "m", wants: []arklet.Module{w}, leaving: map[string]departure{}, placed: map[string]*placement{"1": {url: jar}},
			list:   map[string]arklet.Biz{"1": {Name: "m", Version: "1", State: arklet.StateActivated}},
			failed: map[attempt]failure{uninstall(w): {err: errors.New("the base has restarted"), next: time.Now().Add(time.Minute)}},
		}
		if do := s.next(); do.do != rest {
			t.Errorf("with the %s jar it does %d", jar, do.do)
		}
		if _, kept := s.failed[uninstall(w)]; kept == forgotten {
			t.Errorf("with the %s jar the failure is kept: %t", jar, kept)
		}
	}
}
