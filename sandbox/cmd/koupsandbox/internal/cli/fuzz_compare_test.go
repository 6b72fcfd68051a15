package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/fuzz"
)

func TestTellComparison(t *testing.T) {
	var out bytes.Buffer
	s := &commands{Streams: Streams{Out: &out}}
	s.tellComparison(&fuzz.Comparison{
		Seed: 7, Schedules: 9, Elapsed: 61 * time.Second,
		A: fuzz.Side{Name: "default settings", Passed: 8, Failed: 1, Invariants: map[string]int{"order": 1}},
		B: fuzz.Side{Name: "mine.yaml", Passed: 5, Failed: 3, Unclear: 1, Invariants: map[string]int{"truth": 2, "order": 1}, Alone: []fuzz.Alone{
			{Seed: 8, Invariant: "truth", Seen: "truth: 1 lie", Unclear: true}, {Seed: 12, Invariant: "truth", Seen: "truth: \x1b[2J"}}},
	}, "/corpus")
	const want = `9 schedules on each side in 1m1s; seed 7

            a: default settings   b: mine.yaml
schedules   9                     9
passed      8                     5
failed      1                     3
  order     1                     1
  truth     0                     2
unclear     0                     1

fails on a only: 0

fails on b only: 2
  seed 8 (unclear on a): truth: 1 lie
  seed 12: truth: \x1b[2J

/corpus/compare.json
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTellFuzz(t *testing.T) {
	for name, tc := range map[string]struct {
		failures []*fuzz.Failure
		want     string
	}{
		"nothing": {nil, "no schedule failed\n\n/corpus/fuzz.json\n"},
		"a failure": {[]*fuzz.Failure{{Invariant: "order", Seen: "order: 2", Smallest: fuzz.Schedule{Moves: []fuzz.Move{{When: fuzz.AtOnce, Do: "release"}}},
			Failed: 3, Repeated: 6, Seed: 8, Times: 2, File: "order-8.yaml"}}, `
order
  order: 2
  moves: at once: release
  failed in 3 of 6 repetitions, seed 8, seen in 2 schedules
  /corpus/order-8.yaml

/corpus/fuzz.json
`},
	} {
		var out bytes.Buffer
		(&commands{Streams: Streams{Out: &out}}).tellFuzz(&fuzz.Result{Seed: 7, Schedules: 30, Moves: 90, Elapsed: time.Minute, Failures: tc.failures}, "/corpus")
		if diff := cmp.Diff("30 schedules with 90 moves in 1m0s, 1800 per hour; seed 7\n"+tc.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
