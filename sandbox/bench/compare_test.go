package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// resultOf has a run for each p50 of a Pod's start; its other percentiles are a half and twice as much more.
func resultOf(startup ...float64) *Result {
	r := &Result{Format: format, Sandbox: "koup", Provider: "embedded", Kubernetes: "v1.36.3",
		Machine: Machine{Name: "lab", CPU: "a processor", Cores: 2, Memory: 24 << 30, Kernel: "linux 6", Go: "go1.26", Date: began}}
	for _, p50 := range startup {
		r.Runs = append(r.Runs, Run{Scenario: "startup", Bases: 100, Verdict: scenario.Passed, Elapsed: 2 * time.Second, Items: []Item{
			item(PodStartup, "pod_startup", milliseconds, 100, p50, p50*1.5, p50*3),
		}})
	}
	return r
}

func TestCompare(t *testing.T) {
	change := func(percentile string, before, now, noise float64, worse bool) Change {
		return Change{Scenario: "startup", Bases: 100, Measurement: PodStartup, Name: "pod_startup", Percentile: percentile, Unit: milliseconds,
			Before: before, Now: now, Noise: noise, Worse: worse}
	}
	for name, tc := range map[string]struct {
		before, now *Result
		want        []Change
	}{
		"the same":                {resultOf(100, 110, 120), resultOf(100, 110, 120), []Change{}},
		"a tenth more is noise":   {resultOf(100, 100, 100), resultOf(110, 110, 110), []Change{}},
		"10 ms are noise":         {resultOf(1, 1, 1), resultOf(3, 3, 3), []Change{}},
		"twice as much is worse":  {resultOf(100, 100, 100), resultOf(200, 200, 200), []Change{change(Perc50, 100, 200, 10, true), change(Perc90, 150, 300, 15, true), change(Perc99, 300, 600, 30, true)}},
		"half as much is better":  {resultOf(200, 200, 200), resultOf(100, 100, 100), []Change{change(Perc50, 200, 100, 20, false), change(Perc90, 300, 150, 30, false), change(Perc99, 600, 300, 60, false)}},
		"runs that spread as far": {resultOf(100, 150, 200), resultOf(180, 260, 340), []Change{}},
		"an odd run among many":   {resultOf(100, 100, 100, 100, 900), resultOf(100, 100, 100, 900, 100), []Change{}},
		"quarters that overlap":   {resultOf(100, 100, 100, 200, 200), resultOf(101, 150, 150, 150, 150), []Change{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Compare(tc.before, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&Comparison{Of: tc.before.Machine, Compared: 3, Changes: tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of a percentile beyond which there is no sample nothing is said, and of throughput only the most of a second,
// of which less is worse.
func TestWhatIsCompared(t *testing.T) {
	with := func(samples int, most float64) *Result {
		r := resultOf(100, 100, 100)
		for i := range r.Runs {
			rate := item(Throughput, "scheduling_throughput", podsASecond, 2, most, most, most)
			rate.Data[Max] = most
			r.Runs[i].Items = []Item{item(PodStartup, "pod_startup", milliseconds, samples, most, most, most), rate}
		}
		return r
	}
	for samples, compared := range map[int]int{1: 1, 2: 2, 9: 2, 10: 3, 99: 3, 100: 4} {
		got, err := Compare(with(samples, 100), with(samples, 100))
		if err != nil {
			t.Fatal(err)
		}
		if got.Compared != compared {
			t.Errorf("of %d samples %d figures are compared, want %d", samples, got.Compared, compared)
		}
	}
	got, err := Compare(with(2, 100), with(2, 50))
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, c := range got.Changes {
		changes = append(changes, c.String())
	}
	want := []string{
		"better: startup, 100 bases: pod_startup p50 was 100 and is 50 ms; noise is up to 10",
		"WORSE: startup, 100 bases: scheduling_throughput max was 100 and is 50 Pods/s; noise is up to 10",
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	changed := func(do func(*Result)) *Result {
		r := resultOf(100, 100, 100)
		do(r)
		return r
	}
	for name, tc := range map[string]struct {
		before, now *Result
		want        string
	}{
		"another machine": {changed(func(r *Result) { r.Machine.Name, r.Machine.Cores = "old", 64 }), resultOf(1, 1, 1),
			"the baseline was measured on another machine (old: a processor, 64 cores, 24 GiB), and this is lab: a processor, 2 cores, 24 GiB; measure a baseline here"},
		"another provider": {changed(func(r *Result) { r.Provider = "kind" }), resultOf(1, 1, 1),
			"the baseline was measured with the provider kind, and this is embedded"},
		"a baseline of two runs": {resultOf(1, 1), resultOf(1, 1, 1),
			"no scenario of the baseline has 3 runs that have passed, and of fewer nobody knows the noise: measure it with --runs 3 or more"},
		"two runs now": {resultOf(1, 1, 1), resultOf(1, 1),
			"nothing is compared with the baseline: each side needs 3 runs of a scenario that have passed"},
		"a run that has failed": {resultOf(1, 1, 1), changed(func(r *Result) { r.Runs[1].Verdict = scenario.Failed }),
			"nothing is compared with the baseline: each side needs 3 runs of a scenario that have passed"},
		"other sizes": {resultOf(1, 1, 1), changed(func(r *Result) {
			for i := range r.Runs {
				r.Runs[i].Bases = 7
			}
		}), "nothing is compared with the baseline: it has no measure of these scenarios with these numbers of bases"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Compare(tc.before, tc.now)
			if err == nil {
				t.Fatalf("compared: %+v", c)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	twin, err := Compare(changed(func(r *Result) { r.Machine.Name, r.Kubernetes = "twin", "v1.35.0" }), resultOf(100, 100, 100))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"the baseline was measured on twin, and this is lab: they are alike, but not the same machine",
		"the baseline was measured with Kubernetes v1.35.0, and this is v1.36.3"}, twin.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// What is not there any more is told in few words.
func TestWhatIsMissing(t *testing.T) {
	requests := func(resource string) Item {
		return Item{Measurement: Responsiveness, Unit: milliseconds, Data: map[string]float64{Perc50: 1}, Labels: map[string]string{verbLabel: "GET", resourceLabel: resource, countLabel: "5"}}
	}
	with := func(bases int, items ...Item) *Result {
		r := resultOf(100, 100, 100)
		for i := range r.Runs {
			r.Runs[i].Bases = bases
			r.Runs[i].Items = append(r.Runs[i].Items, items...)
		}
		return r
	}
	before := with(100, item(NetworkProgramming, "network_programming", milliseconds, 5, 1, 1, 1), requests("pods"), requests("nodes"))
	before.Runs = append(before.Runs, with(10, requests("pods"), requests("nodes")).Runs...)
	for name, tc := range map[string]struct {
		now  *Result
		want []string
	}{
		"no endpoints, and no requests of a kind": {with(100, requests("pods")), []string{"startup, 100 bases: NetworkProgrammingLatency network_programming", "startup, 10 bases"}},
		"no requests at all":                      {with(100), []string{"startup, 100 bases: NetworkProgrammingLatency network_programming", "startup, 100 bases: APIResponsiveness", "startup, 10 bases"}},
	} {
		got, err := Compare(before, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got.Missing); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What is read is what was written; anything else is said to be none.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "base.json")
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	want := resultOf(100, 200, 300)
	if err := WriteJSON(&b, want); err != nil {
		t.Fatal(err)
	}
	save(b.String())
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, says := range map[string]string{
		"":                        "is no result of koupsandbox bench: unexpected end of JSON input",
		`{"seed": 7}`:             "is no result of koupsandbox bench: it names no format",
		`{"format": 9}`:           "has the format 9, and this koupsandbox reads 1: measure the baseline anew",
		`{"format": 1}`:           "has no run that has passed: nothing can be compared with it",
		`{"format": 1, "runs": 3`: "is no result of koupsandbox bench: unexpected end of JSON input",
	} {
		save(text)
		if _, err := Read(file); err == nil || strings.TrimPrefix(err.Error(), file+" ") != says {
			t.Errorf("%s: %v, want: FILE %s", text, err, says)
		}
	}
	if _, err := Read(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// sample has two scenarios, three sizes, a run that failed, notes, and a comparison.
func sample(t *testing.T) *Result {
	t.Helper()
	r := resultOf()
	r.Version = "v1.2.0"
	for run := range 3 {
		for i, bases := range []int{10, 100, 1000} {
			base := float64(40*(i+1)*(i+1) + 7*run)
			one := Run{Scenario: "startup", Bases: bases, Verdict: scenario.Passed, Elapsed: time.Second, Lag: time.Duration(9*run) * time.Millisecond, Items: []Item{
				item(PodStartup, "create_to_schedule", milliseconds, bases, base/4, base/2, base),
				item(PodStartup, "pod_startup", milliseconds, bases, base, base*2, base*3.5),
				item(NetworkProgramming, "network_programming", milliseconds, bases, base/8, base/4, base/2),
			}}
			rate := item(Throughput, "scheduling_throughput", podsASecond, i+1, float64(bases)/4, float64(bases)/3, float64(bases)/2)
			rate.Data[Max] = float64(bases) / 2
			one.Items = append(one.Items, rate)
			for n := range 10 { // more kinds than a table shows
				one.Items = append(one.Items, Item{Measurement: Responsiveness, Unit: milliseconds, Data: map[string]float64{Perc50: 2.5, Perc90: 4.5, Perc99: float64(5 + 3*n)},
					Labels: map[string]string{verbLabel: "PATCH", resourceLabel: fmt.Sprintf("kind%d", n), subLabel: "status", scopeLabel: "resource", countLabel: "120"}})
			}
			r.Runs = append(r.Runs, one)
		}
	}
	r.Runs = append(r.Runs, Run{Scenario: "rolling-update", Cell: "tunnel=<mqtt>", Bases: 4, Verdict: scenario.Failed, Failure: "step \"wait\": <b>3 of 4</b> Pods\x1b[31m", Elapsed: time.Minute},
		Run{Scenario: "rolling-update", Cell: "tunnel=http", Bases: 4, Verdict: scenario.Passed, Notes: []string{"API responsiveness is not measured: forbidden"},
			Items: []Item{item(PodStartup, "pod_startup", milliseconds, 4, 0, 0, 0)}})
	before := sampleBefore(r)
	var err error
	if r.Baseline, err = Compare(before, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// sampleBefore was twice as fast with 1,000 bases, and has a measure that is gone.
func sampleBefore(r *Result) *Result {
	before := *r
	before.Runs = nil
	for _, run := range r.Runs {
		items := []Item{item(PodStartup, "gone", milliseconds, 1, 1, 1, 1)}
		for _, i := range run.Items {
			if run.Bases == 1000 && i.Name() == "pod_startup" {
				i = item(PodStartup, "pod_startup", milliseconds, run.Bases, i.Data[Perc50]/2, i.Data[Perc90]/2, i.Data[Perc99]/2)
			}
			items = append(items, i)
		}
		if run.Scenario == "startup" {
			run.Items = items
			before.Runs = append(before.Runs, run)
		}
	}
	return &before
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "result.txt", b.Bytes())
}

// The page is also there to be looked at in a browser. Whatever a text says, it is a text there.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHTML(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "page.html", b.Bytes())
	for _, never := range []string{"<b>", "<mqtt>", "<script", "http://", "https://", "NaN", "ZgotmplZ"} {
		if strings.Contains(b.String(), never) {
			t.Errorf("the page has %s", never)
		}
	}
}

// A result is good only if all of it is.
func TestOK(t *testing.T) {
	for name, tc := range map[string]struct {
		of   *Result
		want bool
	}{
		"all passed":  {resultOf(1, 1), true},
		"no run":      {resultOf(), false},
		"one failed":  {&Result{Runs: []Run{{Verdict: scenario.Passed}, {Verdict: scenario.Errored}}}, false},
		"stopped":     {&Result{Runs: []Run{{Verdict: scenario.Passed}}, Stopped: true}, false},
		"worse":       {&Result{Runs: []Run{{Verdict: scenario.Passed}}, Baseline: &Comparison{Changes: []Change{{Worse: true}}}}, false},
		"only better": {&Result{Runs: []Run{{Verdict: scenario.Passed}}, Baseline: &Comparison{Changes: []Change{{}}}}, true},
	} {
		if got := tc.of.OK(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
