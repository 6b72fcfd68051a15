package scenario

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

func TestPlan(t *testing.T) {
	s := load(t, "matrix: {b: [1, 2], a: [x, y]}\nsteps:\n- {name: '${{ matrix.a }}${{ matrix.b }} of ${{ "+
		"run.attempt }}', script: {content: echo}}")
	plans := func(seed uint64) (names []string, seeds []uint64) {
		all, err := plan(Options{Scenarios: []*source.Scenario{s}, Repeat: 2, Seed: seed}, "dev", 1)
		if err != nil {
			t.Fatal(err)
		}
		groups := map[string]bool{}
		for _, i := range all {
			names = append(names, i.Spec.Steps[0].Name)
			seeds = append(seeds, i.seed)
			groups[i.name] = true
		}
		if len(groups) != len(all) {
			t.Errorf("%d names for %d runs", len(groups), len(all))
		}
		return names, seeds
	}
	names, seeds := plans(1)
	want := []string{"x1 of 1", "x2 of 1", "y1 of 1", "y2 of 1", "x1 of 2", "x2 of 2", "y1 of 2", "y2 of 2"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	_, again := plans(1)
	if diff := cmp.Diff(seeds, again); diff != "" {
		t.Errorf("seeds of two plans with the same seed (-first +second):\n%s", diff)
	}
	_, others := plans(2)
	for i, seed := range append(seeds, others...) {
		if slices.Contains(append(seeds, others...)[:i], seed) {
			t.Errorf("duplicate seed %d", seed)
		}
	}
}

// TestPlanAtSpeed checks a scenario without a speed, whose durations are for speed 1. In a faster sandbox, its
// durations must be divided by the speed, but not its timeouts.
func TestPlanAtSpeed(t *testing.T) {
	const steps = "steps:\n- {timeout: 20s, sleep: {for: 3s, reason: it takes time}}\n- steps:\n  - {assert: {for: " +
		"1s, cel: 'size(pods) > 0'}}\n- {assert: {cel: 'size(pods) > 0'}}"
	for _, c := range []struct {
		name, spec   string
		speed        int
		sleep, holds time.Duration
	}{
		{"speed 1", steps, 1, 3 * time.Second, time.Second},
		{"a daemon without a speed", steps, 0, 3 * time.Second, time.Second},
		{"speed 5", steps, 5, 600 * time.Millisecond, 200 * time.Millisecond},
		{"a scenario for this speed", "speed: 5\n" + steps, 5, 3 * time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := plan(Options{Scenarios: []*source.Scenario{load(t, c.spec)}}, "dev", c.speed)
			if err != nil {
				t.Fatal(err)
			}
			s := all[0].Spec.Steps
			got := []time.Duration{s[0].Sleep.For.Duration, s[0].Timeout.Duration, s[1].Steps[0].Assert.For.Duration,
				s[2].Assert.For.Duration}
			if diff := cmp.Diff([]time.Duration{c.sleep, 20 * time.Second, c.holds, 0}, got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunName(t *testing.T) {
	name := runName("a-scenario-with-a-very-long-name-indeed")
	if len(name) != maxNameLength+6 && len(name) != maxNameLength+5 {
		t.Errorf("name %q has %d characters", name, len(name))
	}
	if name == runName("a-scenario-with-a-very-long-name-indeed") {
		t.Errorf("duplicate name %q", name)
	}
}

func TestSchedule(t *testing.T) {
	type state struct {
		sync.Mutex
		running, most int
		together      bool // true if an exclusive run overlapped with another run
		begun         []int
	}
	tests := []struct {
		name      string
		parallel  int
		exclusive []bool
		stopAfter int // number of runs after which the schedule stops; 0 means never
		most      int
		begun     int
	}{
		{"one at a time", 1, []bool{false, false, false}, 0, 1, 3},
		{"three concurrent runs", 3, []bool{false, false, false, false, false}, 0, 3, 5},
		{"exclusive runs alone", 2, []bool{false, true, false, true}, 0, 2, 4},
		{"stopped", 1, []bool{false, false, false}, 1, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s state
			both := make(chan struct{}) // closed when the maximum number of runs is running
			schedule{
				n: len(tt.exclusive), parallel: tt.parallel,
				exclusive: func(i int) bool { return tt.exclusive[i] },
				stopped: func() bool {
					s.Lock()
					defer s.Unlock()
					return tt.stopAfter > 0 && len(s.begun) >= tt.stopAfter
				},
				cleaned: func() {},
				run: func(i int) {
					s.Lock()
					s.running++
					s.begun = append(s.begun, i)
					s.together = s.together || tt.exclusive[i] && s.running > 1
					if s.running > s.most {
						s.most = s.running
						if s.most == tt.most {
							close(both)
						}
					}
					s.Unlock()
					if !tt.exclusive[i] {
						<-both
					}
					s.Lock()
					s.running--
					s.Unlock()
				},
			}.runAll()
			if s.most != tt.most || s.together || len(s.begun) != tt.begun {
				t.Errorf("%d concurrent runs, exclusive run overlaps: %t, started %v; want %d, false, %d runs", s.most,
					s.together, s.begun, tt.most, tt.begun)
			}
		})
	}
}

func TestPendingRunsAreSkipped(t *testing.T) {
	all, err := plan(Options{Scenarios: []*source.Scenario{load(t, "steps:\n- {script: {content: echo}}")}, Repeat: 2},
		"dev", 1)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		dry  bool
		want string
	}{{"dry", t.Context(), true, "dry run"},
		{"stopped", cancelled, false, "stopped before it started"}} {
		t.Run(tt.name, func(t *testing.T) {
			r := &runner{o: Options{DryRun: tt.dry}, plan: all,
				report: &Report{Runs: []*Run{newRun(all[0]), newRun(all[1])}}}
			report := r.run(tt.ctx)
			var got []string
			for _, run := range report.Runs {
				got = append(got, fmt.Sprintf("%s: %s", run.Result, run.Failure))
			}
			if diff := cmp.Diff([]string{"skipped: " + tt.want, "skipped: " + tt.want}, got); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if report.Result() != Passed {
				t.Errorf("result %s", report.Result())
			}
		})
	}
}
