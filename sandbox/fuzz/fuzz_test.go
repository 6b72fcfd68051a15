package fuzz

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// serial is a run in sandboxes that each have one schedule at a time.
func serial(o Options, try runner) *run {
	r := newRun(o, try)
	r.room = 1
	return r
}

// What is drawn, and whatever it is reduced to, is a scenario that can be run.
func TestSchedulesAreScenarios(t *testing.T) {
	folder := t.TempDir()
	is := func(s Schedule) {
		t.Helper()
		text, err := s.YAML("x", true, "Found by chance.\nTwice.")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# Found by chance.\n# Twice.\n") {
			t.Errorf("the file begins with %.60q", text)
		}
		file := filepath.Join(folder, "x.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Load([]string{file}, source.Options{}); err != nil {
			t.Fatalf("%s\n%v\n%s", s, err, text)
		}
	}
	used := map[string]bool{}
	for seed := range uint64(1200) {
		g := generator{beyond: seed%2 == 0}
		s := g.generate(seed)
		if !g.beyond && s.has((*actionSpec).beyond) {
			t.Errorf("seed %d goes beyond the contract: %s", seed, s)
		}
		if diff := cmp.Diff(s, g.generate(seed)); diff != "" {
			t.Fatalf("seed %d gives two schedules:\n%s", seed, diff)
		}
		known := len(used)
		for _, m := range s.Actions {
			used[m.Do] = true
		}
		if len(used) > known { // reading a scenario takes a tenth of a second
			is(s)
		}
		if seed == 0 {
			for _, smaller := range s.simplifications() {
				is(smaller)
			}
		}
	}
	for _, name := range ActionNames() {
		if !used[name] {
			t.Errorf("no schedule has %q", name)
		}
	}
}

// The file of a schedule needs nothing of the sandbox that it was found in.
func TestFilesAreWhole(t *testing.T) {
	for _, c := range []struct {
		kind, do            string
		ours, peers, silent bool
	}{
		{peer, "release", true, true, false},
		{deployment, "release", true, false, false},
		{deployment, upgrade, true, false, true},
		{peer, upgrade, true, true, true},
		{peer, upgrade, false, false, false},
	} {
		s := Schedule{
			Replicas: 1, Bases: []Bases{{Tunnel: v1alpha1.TunnelMQTT, Count: 1}},
			Workloads: []Workload{{Module: "m", Kind: c.kind, Replicas: 1}}, Actions: []Action{{Do: c.do}},
		}
		text, err := s.YAML("x", c.ours)
		if err != nil {
			t.Fatal(err)
		}
		for setting, want := range map[string]bool{"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": c.peers,
			"MASS_SILENCE_AT_MOST": c.silent} {
			if got := strings.Contains(string(text), setting); got != want {
				t.Errorf("%+v: %s %t", c, setting, got)
			}
		}
	}
}

// At a lower speed everything may take longer; at a higher one as long as before, since not all of it
// gets faster.
func TestSpeed(t *testing.T) {
	for speed, factor := range map[int]time.Duration{0: 1, 1: 5, 2: 2, 5: 1, MaxSpeed: 1} {
		s := generator{speed: speed}.generate(1)
		s.Actions = nil
		c := s.Scenario("x")
		if c.Spec.Speed != speed && (speed != 0 || c.Spec.Speed != Speed) {
			t.Errorf("speed %d: the scenario is for %d", speed, c.Spec.Speed)
		}
		last := c.Spec.Steps[len(c.Spec.Steps)-1]
		got := []time.Duration{last.Timeout.Duration, last.Wait.Quiet.Duration, c.Spec.Timeout.Duration}
		want := []time.Duration{30 * factor * time.Second, factor * time.Second, 4 * factor * time.Minute}
		if speed == 2 { // two and a half times as long
			want = []time.Duration{75 * time.Second, 2500 * time.Millisecond, 10 * time.Minute}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("speed %d (-want +got):\n%s", speed, diff)
		}
	}
}

func TestOnly(t *testing.T) {
	for seed := range uint64(50) {
		for _, m := range (generator{only: []string{release, "broker killed"}}).generate(seed).Actions {
			if m.Do != release && m.Do != "broker killed" {
				t.Errorf("seed %d has %q", seed, m.Do)
			}
		}
	}
}

// only is the one replica that a rule is for; 0 = any of several.
func only(replica *int, s Schedule) int {
	if s.Replicas == 1 {
		return 1
	}
	return ptr.Deref(replica, 0)
}

// What disturbs ends, and what needs the API server finds it there.
func TestDisturbancesEnd(t *testing.T) {
	waited := 0
	for seed := range uint64(3000) {
		away := map[string]string{}
		killed, ruled := 0, false // the replica that a rule kills, and whether one does
		faults := map[string]bool{}
		s := generator{}.generate(seed)
		for _, step := range s.Scenario("x").Spec.Steps {
			for name, a := range map[string]*v1alpha1.ComponentAction{
				"controller": step.Controller, "broker": step.Broker, "apiserver": step.APIServer,
				"controllerManager": step.ControllerManager, "scheduler": step.Scheduler,
			} {
				switch {
				case a == nil:
				case a.Do == "kill" || a.Do == "pause":
					if away[name] != "" {
						t.Fatalf("seed %d: %s is away already: %s", seed, name, s)
					}
					away[name] = a.Do
				default:
					if want := map[string]string{"kill": "start", "pause": "resume", "killBefore": "restart",
						"killAfter": "restart"}[away[name]]; a.Do != want {
						t.Fatalf("seed %d: %s of %s after %q: %s", seed, a.Do, name, away[name], s)
					}
					away[name] = ""
					if name == "controller" && ruled && ptr.Deref(a.Replica, 1) != killed {
						t.Fatalf("seed %d: replica %d is restarted, and %d was killed: %s", seed,
							ptr.Deref(a.Replica, 1), killed, s)
					}
					ruled = false
				}
			}
			if f := step.Fault; f != nil && f.Set != nil {
				switch set := f.Set; {
				case set.Target.Kills(set.Fault.Kind):
					away["controller"], killed, ruled = string(set.Fault.Kind), only(set.Replica, s), true
				case slices.Contains([]fault.Kind{fault.KindUninstalled, fault.KindCrash, v1alpha1.MQTTNote},
					set.Fault.Kind):
				default:
					faults[set.Fault.ID] = true
				}
			} else if f != nil && f.Clear != nil {
				delete(faults, f.Clear.IDs[0])
			}
			if (step.Apply != nil || step.Scale != nil || step.Delete != nil) && away["apiserver"] != "" {
				t.Fatalf("seed %d: something is written while the API server is away: %s", seed, s)
			}
			if d := step.Delete; d != nil && d.Kind == "Pod" && !d.NoWait {
				waited++
				if held := strings.Join(slices.Collect(maps.Values(away)), ""); held != "" || len(faults) > 0 {
					t.Fatalf("seed %d: a Pod is waited for that %s %v may hold up: %s", seed, held, faults, s)
				}
			}
		}
		for name, how := range away {
			if how != "" {
				t.Errorf("seed %d: %s is away in the end: %s", seed, name, s)
			}
		}
		if len(faults) > 0 {
			t.Errorf("seed %d: faults %v are there in the end: %s", seed, faults, s)
		}
	}
	if waited == 0 {
		t.Error("no Pod was waited for")
	}
}

// A failure is reduced to the moves without which it does not fail, and those of a kind become one.
func TestReduce(t *testing.T) {
	var tries atomic.Int64
	culprits := []string{release, "broker killed"}
	fails := func(_ context.Context, s Schedule) (runResult, *scenario.Report, error) {
		tries.Add(1)
		for _, name := range culprits {
			if !s.has(func(m *actionSpec) bool { return m.name == name }) {
				return runResult{}, &scenario.Report{}, nil
			}
		}
		return runResult{invariant: "requests", seen: "5 were lost"}, &scenario.Report{}, nil
	}
	told := 0
	o := Options{Seed: 1, Count: 400, Parallel: 3, Corpus: t.TempDir(), MaxFailures: 100, Progress: func(p Progress) {
		if p.Failure != nil {
			told++
		}
	}}.Complete()
	r := serial(o, fails)
	r.began = time.Now()
	if err := r.workers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.result.Schedules != 400 || told == 0 {
		t.Fatalf("%d schedules ran, %d failures were told", r.result.Schedules, told)
	}
	if err := r.reduceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	if len(r.result.Failures) != 1 {
		t.Fatalf("%d failures are left", len(r.result.Failures))
	}
	f := r.result.Failures[0]
	var names []string
	for _, m := range f.Smallest.Actions {
		names = append(names, m.Do)
		if m.When != Immediately || m.For != 0 || m.Lasts != 0 {
			t.Errorf("the move %+v is not as simple as it can be", m)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"broker killed", release}, names); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if f.Failed != f.Repeated || f.Repeated != repeats*3 || f.Times < 2 {
		t.Errorf("the failure is %+v", f)
	}
	var kept Result
	text, err := os.ReadFile(filepath.Join(o.Corpus, ResultFile))
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || len(kept.Failures) != 1 {
		t.Errorf("the corpus has %+v, error %v", kept, err)
	}
	if _, err := source.Load([]string{filepath.Join(o.Corpus, f.File)}, source.Options{}); err != nil {
		t.Errorf("the corpus has no scenario: %v", err)
	}
}

// An inconclusive run is repeated once. A schedule without a result does not count.
func TestUnclear(t *testing.T) {
	for name, c := range map[string]struct {
		unclear                func(try int64) bool
		schedules, unclearRuns int
	}{
		"every first run":      {func(try int64) bool { return try%2 == 1 }, 4, 4},
		"both runs of the one": {func(try int64) bool { return try <= 2 }, 3, 2},
	} {
		var tries atomic.Int64
		r := serial(Options{Seed: 1, Count: 4, Parallel: 1, Corpus: t.TempDir()}.Complete(),
			func(context.Context, Schedule) (runResult, *scenario.Report, error) {
				return runResult{inconclusive: c.unclear(tries.Add(1)), seen: "too late"}, &scenario.Report{}, nil
			})
		r.began = time.Now()
		if err := r.workers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.result.Schedules != c.schedules || r.result.Inconclusive != c.unclearRuns || len(r.result.Failures) != 0 {
			t.Errorf("%s: %d tries, result %+v", name, tries.Load(), r.result)
		}
	}
}

// A command of the user's gets no schedule that wants more controllers than it has.
func TestSchedulesFit(t *testing.T) {
	config := &v1alpha1.Sandbox{}
	if got := controllersOf(config); got != 0 {
		t.Errorf("the controller of the project can be %d", got)
	}
	config.Spec.Controller.Command = []string{"mine"}
	if got := controllersOf(config); got != 1 {
		t.Errorf("a command can be %d", got)
	}
	r := serial(Options{Seed: 1, Count: 60, Corpus: t.TempDir()}.Complete(), nil)
	r.gen.controllers = 1
	for range 59 {
		if s, more := r.next(); !more || s.Replicas > 1 && s.Seed != 1 {
			t.Errorf("seed %d wants %d controllers", s.Seed, s.Replicas)
		}
	}
}

func TestJudge(t *testing.T) {
	lost := scenario.Traffic{Summary: traffic.Summary{}, Verdict: scenario.Failed}
	lost.Name, lost.Sent, lost.Summary.Lost = "service1", 10, 3
	broken := scenario.Check{Name: "order", Verdict: scenario.Failed, Summary: "1 in the wrong order",
		Violations: []scenario.Violation{{Message: "it was"}}}
	for name, c := range map[string]struct {
		run  scenario.Run
		want runResult
	}{
		"passed": {scenario.Run{Verdict: scenario.Passed}, runResult{}},
		"not to be judged": {scenario.Run{Verdict: scenario.Errored, Failure: "late"},
			runResult{inconclusive: true, seen: "late"}},
		"a step": {scenario.Run{Verdict: scenario.Failed, Failure: "not within 75s"},
			runResult{invariant: "at rest", seen: "not within 75s"}},
		"requests": {scenario.Run{Verdict: scenario.Failed, Traffic: []scenario.Traffic{lost}},
			runResult{invariant: "requests", seen: "stream service1: 3 of 10 requests were lost"}},
		"a check, before them": {
			scenario.Run{Verdict: scenario.Failed, Traffic: []scenario.Traffic{lost}, Checks: []scenario.Check{broken}},
			runResult{invariant: "order", seen: "order: 1 in the wrong order; it was"}},
	} {
		got := evaluate(&scenario.Report{Runs: []*scenario.Run{&c.run}})
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(runResult{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Requests that are lost since Kubernetes deletes the last Pod that serves, as a release is rolled back, say nothing about the
// controller.
func TestTakenTooSoon(t *testing.T) {
	began := time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC)
	pod := func(at int, name, version string, ready, deleting bool) events.Event {
		s := events.PodState{Name: name, UID: name, Ready: ready, Deleting: deleting, Owner: "ReplicaSet/" + name,
			Modules: []events.ModuleRef{{Name: "biz1", Version: version}}}
		return events.Event{Time: began.Add(time.Duration(at) * time.Second), Pod: &events.PodEvent{PodState: s}}
	}
	older, newer := pod(0, "older", "1.0.0", true, false), pod(1, "newer", "2.0.0", true, false)
	back := []*scenario.Step{{Name: "12 roll back: biz1 1.0.0", Started: began.Add(2 * time.Second)}}
	for name, c := range map[string]struct {
		steps  []*scenario.Step
		events []events.Event
		want   bool
	}{
		"the old one is on its way out": {back,
			[]events.Event{older, newer, pod(3, "older", "1.0.0", true, true), pod(4, "newer", "2.0.0", true, true)},
			true},
		"the old one serves": {back, []events.Event{older, newer, pod(4, "newer", "2.0.0", true, true)},
			false},
		"before": {back, []events.Event{newer, pod(1, "newer", "2.0.0", true, true)}, false},
		"it did not serve": {back,
			[]events.Event{pod(1, "newer", "2.0.0", false, false), pod(4, "newer", "2.0.0", false, true)}, false},
		"what it is rolled back to": {back, []events.Event{older, pod(4, "older", "1.0.0", true, true)}, false},
		"nothing was rolled back":   {nil, []events.Event{newer, pod(4, "newer", "2.0.0", true, true)}, false},
		"another module was rolled back": {[]*scenario.Step{{Name: "12 roll back: biz2 1.0.0", Started: began}},
			[]events.Event{newer, pod(4, "newer", "2.0.0", true, true)}, false},
	} {
		lost := scenario.Traffic{Verdict: scenario.Failed}
		lost.Sent, lost.Summary.Lost = 10, 3
		run := scenario.Run{Verdict: scenario.Failed, Traffic: []scenario.Traffic{lost}, Steps: c.steps,
			Timeline: c.events}
		if got := evaluate(&scenario.Report{Runs: []*scenario.Run{&run}}); got.inconclusive != c.want ||
			(got.invariant == "requests") == c.want {
			t.Errorf("%s: %+v, want unclear: %t", name, got, c.want)
		}
	}
}

// Schedules have three disturbances on average. Most schedules can share a sandbox, and these disturb only their own
// objects.
func TestKindsOfSchedules(t *testing.T) {
	const all = 600
	disturbances, alone := 0, 0
	for seed := range uint64(all) {
		s := generator{}.generate(seed)
		for _, m := range s.Actions {
			if actionSpecs[m.Do].isDisruption() {
				disturbances++
			}
		}
		if s.needsOwnSandbox() {
			alone++
		}
		for _, step := range s.Scenario("x").Spec.Steps {
			shared := step.Controller != nil || step.Broker != nil || step.APIServer != nil ||
				step.ControllerManager != nil || step.Scheduler != nil ||
				step.Fault != nil && step.DisruptsAll() && step.Fault.Set.Fault.Match.Namespace == ""
			if shared && !s.needsOwnSandbox() {
				t.Errorf("seed %d disturbs other schedules: %s", s.Seed, s)
			}
		}
	}
	if mean := float64(disturbances) / all; mean < 2.7 || mean > 3.3 {
		t.Errorf("%.2f disturbances on average", mean)
	}
	if alone < all/10 || alone > all/3 {
		t.Errorf("%d of %d schedules need a sandbox of their own", alone, all)
	}
}

// Nothing begins when the time is over, and what runs then comes to its end.
func TestTheTimeIsOver(t *testing.T) {
	var r *run
	r = serial(Options{Seed: 1, For: time.Hour, Parallel: 2, Corpus: t.TempDir()}.Complete(),
		func(ctx context.Context, _ Schedule) (runResult, *scenario.Report, error) {
			r.mu.Lock()
			r.began = r.began.Add(-2 * time.Hour)
			r.mu.Unlock()
			return runResult{}, &scenario.Report{}, ctx.Err()
		})
	r.began = time.Now()
	if err := r.workers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.result.Schedules; n != r.taken || n == 0 {
		t.Errorf("%d schedules were judged, of %d that have begun", n, r.taken)
	}
}
