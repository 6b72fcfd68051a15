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

// serial returns a run in which each sandbox runs one schedule at a time.
func serial(o Options, runSchedule runner) *run {
	r := newRun(o, runSchedule)
	r.room = 1
	return r
}

// TestSchedulesAreScenarios checks that generated schedules and their simplifications are valid scenarios.
func TestSchedulesAreScenarios(t *testing.T) {
	dir := t.TempDir()
	wantScenario := func(s Schedule) {
		t.Helper()
		text, err := s.YAML("x", true, "Found by chance.\nTwice.")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# Found by chance.\n# Twice.\n") {
			t.Errorf("file begins with %.60q, want the comments", text)
		}
		file := filepath.Join(dir, "x.yaml")
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
		if !g.beyond && s.has((*actionSpec).breaksContract) {
			t.Errorf("seed %d has actions beyond the contract: %s", seed, s)
		}
		if diff := cmp.Diff(s, g.generate(seed)); diff != "" {
			t.Fatalf("schedules of seed %d differ:\n%s", seed, diff)
		}
		known := len(used)
		for _, m := range s.Actions {
			used[m.Do] = true
		}
		if len(used) > known { // reading a scenario takes a tenth of a second
			wantScenario(s)
		}
		if seed == 0 {
			for _, simpler := range s.simplifications() {
				wantScenario(simpler)
			}
		}
	}
	for _, name := range ActionNames() {
		if !used[name] {
			t.Errorf("no schedule has %q", name)
		}
	}
}

// TestFilesHaveControllerSettings checks that a scenario file contains the settings that the bundled controller needs
// for the schedule.
func TestFilesHaveControllerSettings(t *testing.T) {
	for _, c := range []struct {
		do                string
		bundled, settling bool
	}{
		{"release", true, false},
		{upgrade, true, true},
		{upgrade, false, false},
	} {
		s := Schedule{
			Replicas: 1, Bases: []Bases{{Tunnel: v1alpha1.TunnelMQTT, Count: 1}},
			Workloads: []Workload{{Module: "m", Kind: peer, Replicas: 1}}, Actions: []Action{{Do: c.do}},
		}
		text, err := s.YAML("x", c.bundled)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "MASS_SILENCE_AT_MOST"); got != c.settling {
			t.Errorf("%+v: file has MASS_SILENCE_AT_MOST = %t, want %t", c, got, c.settling)
		}
	}
}

// TestSpeed checks that the timeouts of a schedule are longer at lower speeds, but not shorter at higher speeds.
func TestSpeed(t *testing.T) {
	for speed, factor := range map[int]time.Duration{0: 1, 1: 5, 2: 2, 5: 1, MaxSpeed: 1} {
		s := generator{speed: speed}.generate(1)
		s.Actions = nil
		c := s.Scenario("x")
		if c.Spec.Speed != speed && (speed != 0 || c.Spec.Speed != Speed) {
			t.Errorf("speed %d: speed of the scenario = %d", speed, c.Spec.Speed)
		}
		last := c.Spec.Steps[len(c.Spec.Steps)-1]
		got := []time.Duration{last.Timeout.Duration, last.Wait.Quiet.Duration, c.Spec.Timeout.Duration}
		want := []time.Duration{30 * factor * time.Second, factor * time.Second, 4 * factor * time.Minute}
		if speed == 2 { // factor 2.5
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

// replicaOf returns the number of the controller on which a fault acts; 0 means that the fault may act on any
// controller.
func replicaOf(replica *int, s Schedule) int {
	if s.Replicas == 1 {
		return 1
	}
	return ptr.Deref(replica, 0)
}

// TestDisruptionsEnd checks that every disruption ends, and that no action that needs the API server runs while the
// API server is down.
func TestDisruptionsEnd(t *testing.T) {
	waited := 0
	for seed := range uint64(3000) {
		down := map[string]string{}
		killed, faultKills := 0, false // the controller that a fault kills, and whether a fault does
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
					if down[name] != "" {
						t.Fatalf("seed %d: %s is already down: %s", seed, name, s)
					}
					down[name] = a.Do
				default:
					if want := map[string]string{"kill": "start", "pause": "resume", "killBefore": "restart",
						"killAfter": "restart"}[down[name]]; a.Do != want {
						t.Fatalf("seed %d: %s of %s after %q: %s", seed, a.Do, name, down[name], s)
					}
					down[name] = ""
					if name == "controller" && faultKills && ptr.Deref(a.Replica, 1) != killed {
						t.Fatalf("seed %d: controller %d is restarted, but controller %d was killed: %s", seed,
							ptr.Deref(a.Replica, 1), killed, s)
					}
					faultKills = false
				}
			}
			if f := step.Fault; f != nil && f.Set != nil {
				switch set := f.Set; {
				case set.Target.Kills(set.Fault.Kind):
					down["controller"], killed, faultKills = string(set.Fault.Kind), replicaOf(set.Replica, s), true
				case slices.Contains([]fault.Kind{fault.KindUninstalled, fault.KindCrash, v1alpha1.MQTTNote},
					set.Fault.Kind):
				default:
					faults[set.Fault.ID] = true
				}
			} else if f != nil && f.Clear != nil {
				delete(faults, f.Clear.IDs[0])
			}
			if (step.Apply != nil || step.Scale != nil || step.Delete != nil) && down["apiserver"] != "" {
				t.Fatalf("seed %d: write while the API server is down: %s", seed, s)
			}
			if d := step.Delete; d != nil && d.Kind == "Pod" && !d.NoWait {
				waited++
				if held := strings.Join(slices.Collect(maps.Values(down)), ""); held != "" || len(faults) > 0 {
					t.Fatalf("seed %d: step waits for the deletion of a Pod during %s %v: %s", seed, held, faults, s)
				}
			}
		}
		for name, how := range down {
			if how != "" {
				t.Errorf("seed %d: %s is down at the end: %s", seed, name, s)
			}
		}
		if len(faults) > 0 {
			t.Errorf("seed %d: faults %v are in effect at the end: %s", seed, faults, s)
		}
	}
	if waited == 0 {
		t.Error("no schedule waits for the deletion of a Pod")
	}
}

// TestShrink checks that failures are shrunk to the actions that cause them, and that equal failures are merged.
func TestShrink(t *testing.T) {
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
	reported := 0
	o := Options{Seed: 1, Count: 400, Parallel: 3, Corpus: t.TempDir(), MaxFailures: 100, Progress: func(p Progress) {
		if p.Failure != nil {
			reported++
		}
	}}.Complete()
	r := serial(o, fails)
	r.began = time.Now()
	if err := r.workers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.result.Schedules != 400 || reported == 0 {
		t.Fatalf("schedules = %d, reported failures = %d", r.result.Schedules, reported)
	}
	if err := r.shrinkAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	if len(r.result.Failures) != 1 {
		t.Fatalf("failures = %d, want 1", len(r.result.Failures))
	}
	f := r.result.Failures[0]
	var names []string
	for _, m := range f.Smallest.Actions {
		names = append(names, m.Do)
		if m.When != Immediately || m.For != 0 || m.Lasts != 0 {
			t.Errorf("action %+v can be simplified", m)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"broker killed", release}, names); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if f.Failed != f.Repeated || f.Repeated != repeats*3 || f.Times < 2 {
		t.Errorf("failure = %+v", f)
	}
	var kept Result
	text, err := os.ReadFile(filepath.Join(o.Corpus, ResultFile))
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || len(kept.Failures) != 1 {
		t.Errorf("saved result = %+v, error = %v", kept, err)
	}
	if _, err := source.Load([]string{filepath.Join(o.Corpus, f.File)}, source.Options{}); err != nil {
		t.Errorf("loading the saved scenario: %v", err)
	}
}

// TestInconclusive checks that an inconclusive run is repeated once, and that a schedule without a result is not
// counted.
func TestInconclusive(t *testing.T) {
	for name, c := range map[string]struct {
		inconclusive                func(attempt int64) bool
		schedules, inconclusiveRuns int
	}{
		"every first run":           {func(attempt int64) bool { return attempt%2 == 1 }, 4, 4},
		"both runs of one schedule": {func(attempt int64) bool { return attempt <= 2 }, 3, 2},
	} {
		var tries atomic.Int64
		r := serial(Options{Seed: 1, Count: 4, Parallel: 1, Corpus: t.TempDir()}.Complete(),
			func(context.Context, Schedule) (runResult, *scenario.Report, error) {
				return runResult{inconclusive: c.inconclusive(tries.Add(1)), seen: "too late"}, &scenario.Report{}, nil
			})
		r.began = time.Now()
		if err := r.workers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.result.Schedules != c.schedules || r.result.Inconclusive != c.inconclusiveRuns ||
			len(r.result.Failures) != 0 {
			t.Errorf("%s: runs = %d, result = %+v", name, tries.Load(), r.result)
		}
	}
}

// TestMaxControllers checks the maximum number of controllers for the bundled controller and for custom controllers.
// No generated schedule may need more controllers than this maximum.
func TestMaxControllers(t *testing.T) {
	config := &v1alpha1.Sandbox{}
	if got := controllersOf(config); got != 0 {
		t.Errorf("maximum of the bundled controller = %d, want 0", got)
	}
	config.Spec.Controller.Command = []string{"mine"}
	if got := controllersOf(config); got != 1 {
		t.Errorf("maximum of a custom controller = %d, want 1", got)
	}
	r := serial(Options{Seed: 1, Count: 60, Corpus: t.TempDir()}.Complete(), nil)
	r.gen.controllers = 1
	for range 59 {
		if s, more := r.next(); !more || s.Replicas > 1 && s.Seed != 1 {
			t.Errorf("seed %d needs %d controllers, want 1", s.Seed, s.Replicas)
		}
	}
}

func TestEvaluate(t *testing.T) {
	lost := scenario.Traffic{Summary: traffic.Summary{}, Result: scenario.Failed}
	lost.Name, lost.Sent, lost.Summary.Lost = "service1", 10, 3
	broken := scenario.Check{Name: "order", Result: scenario.Failed, Summary: "1 in the wrong order",
		Violations: []scenario.Violation{{Message: "it was"}}}
	for name, c := range map[string]struct {
		run  scenario.Run
		want runResult
	}{
		"passed": {scenario.Run{Result: scenario.Passed}, runResult{}},
		"errored": {scenario.Run{Result: scenario.Errored, Failure: "late"},
			runResult{inconclusive: true, seen: "late"}},
		"failed step": {scenario.Run{Result: scenario.Failed, Failure: "not within 75s"},
			runResult{invariant: "final state", seen: "not within 75s"}},
		"requests": {scenario.Run{Result: scenario.Failed, Traffic: []scenario.Traffic{lost}},
			runResult{invariant: "requests", seen: "stream service1: 3 of 10 requests were lost"}},
		"failed check and lost requests": {
			scenario.Run{Result: scenario.Failed, Traffic: []scenario.Traffic{lost}, Checks: []scenario.Check{broken}},
			runResult{invariant: "order", seen: "order: 1 in the wrong order; it was"}},
	} {
		got := evaluate(&scenario.Report{Runs: []*scenario.Run{&c.run}})
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(runResult{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLastReadyPodDeletedByKubernetes checks that lost requests are not reported as a failure of the controller if
// Kubernetes deleted the last Ready Pod during a rollback.
func TestLastReadyPodDeletedByKubernetes(t *testing.T) {
	began := time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC)
	pod := func(at int, name, version string, ready, deleting bool) events.Event {
		s := events.PodState{Name: name, UID: name, Ready: ready, Deleting: deleting, Owner: "ReplicaSet/" + name,
			Modules: []events.ModuleRef{{Name: "biz1", Version: version}}}
		return events.Event{Time: began.Add(time.Duration(at) * time.Second), Pod: &events.PodEvent{PodState: s}}
	}
	older, newer := pod(0, "older", "1.0.0", true, false), pod(1, "newer", "2.0.0", true, false)
	rollbackStep := []*scenario.Step{{Name: "12 roll back: biz1 1.0.0", Started: began.Add(2 * time.Second)}}
	for name, c := range map[string]struct {
		steps  []*scenario.Step
		events []events.Event
		want   bool
	}{
		"old Pod is being deleted": {rollbackStep,
			[]events.Event{older, newer, pod(3, "older", "1.0.0", true, true), pod(4, "newer", "2.0.0", true, true)},
			true},
		"old Pod is Ready": {rollbackStep, []events.Event{older, newer, pod(4, "newer", "2.0.0", true, true)},
			false},
		"before the rollback": {rollbackStep, []events.Event{newer, pod(1, "newer", "2.0.0", true, true)}, false},
		"Pod was not Ready": {rollbackStep,
			[]events.Event{pod(1, "newer", "2.0.0", false, false), pod(4, "newer", "2.0.0", false, true)}, false},
		"Pod of the target version": {rollbackStep, []events.Event{older, pod(4, "older", "1.0.0", true, true)}, false},
		"no rollback":               {nil, []events.Event{newer, pod(4, "newer", "2.0.0", true, true)}, false},
		"rollback of another module": {[]*scenario.Step{{Name: "12 roll back: biz2 1.0.0", Started: began}},
			[]events.Event{newer, pod(4, "newer", "2.0.0", true, true)}, false},
	} {
		lost := scenario.Traffic{Result: scenario.Failed}
		lost.Sent, lost.Summary.Lost = 10, 3
		run := scenario.Run{Result: scenario.Failed, Traffic: []scenario.Traffic{lost}, Steps: c.steps,
			Timeline: c.events}
		if got := evaluate(&scenario.Report{Runs: []*scenario.Run{&run}}); got.inconclusive != c.want ||
			(got.invariant == "requests") == c.want {
			t.Errorf("%s: result = %+v, want inconclusive: %t", name, got, c.want)
		}
	}
}

// TestScheduleDistribution checks that schedules have three disruptions on average, and that most schedules can share
// a sandbox because they disrupt only their own objects.
func TestScheduleDistribution(t *testing.T) {
	const total = 600
	disruptions, ownSandbox := 0, 0
	for seed := range uint64(total) {
		s := generator{}.generate(seed)
		for _, m := range s.Actions {
			if actionSpecs[m.Do].isDisruption() {
				disruptions++
			}
		}
		if s.needsOwnSandbox() {
			ownSandbox++
		}
		for _, step := range s.Scenario("x").Spec.Steps {
			shared := step.Controller != nil || step.Broker != nil || step.APIServer != nil ||
				step.ControllerManager != nil || step.Scheduler != nil ||
				step.Fault != nil && step.DisruptsAll() && step.Fault.Set.Fault.Match.Namespace == ""
			if shared && !s.needsOwnSandbox() {
				t.Errorf("seed %d disrupts other schedules: %s", s.Seed, s)
			}
		}
	}
	if mean := float64(disruptions) / total; mean < 2.7 || mean > 3.3 {
		t.Errorf("mean number of disruptions = %.2f, want 2.7 to 3.3", mean)
	}
	if ownSandbox < total/10 || ownSandbox > total/3 {
		t.Errorf("schedules that need their own sandbox = %d of %d", ownSandbox, total)
	}
}

// TestTimeLimit checks that no schedule starts after the time limit, and that running schedules complete.
func TestTimeLimit(t *testing.T) {
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
		t.Errorf("schedules with a result = %d, started schedules = %d", n, r.taken)
	}
}
