package fuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

var look = flag.String("look", "", "write the page of the sample to this file, to be looked at")

// filesOf are the names of the files in a corpus.
func filesOf(t *testing.T, corpus string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(corpus)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// read reads a result from its file.
func read[T any](t *testing.T, file string) (value T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Error(err)
	}
	return value
}

// A failure is in the corpus before the next try begins, so a process that is killed loses nothing;
// and Ctrl-C leaves everything that was found until then.
func TestWhatIsFoundIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		count, stopAt int // schedules, and the try in which Ctrl-C is pressed
		schedules     int // that have ended
	}{
		"while schedules run":        {count: 10, stopAt: 3, schedules: 2},
		"while a failure is reduced": {count: 1, stopAt: 4, schedules: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Seed: 7, Count: tc.count, Parallel: 1, Corpus: filepath.Join(t.TempDir(), "corpus")}.Complete()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			tries := 0
			var killed []string
			r := serial(o, func(context.Context, Schedule) (outcome, *scenario.Report, error) {
				tries++
				if tries == 2 {
					killed = filesOf(t, o.Corpus)
				}
				if tries == tc.stopAt {
					stop()
				}
				if tries == 1 {
					return outcome{invariant: "order", seen: "it was", log: "module-controller: why\n"}, &scenario.Report{Runs: []*scenario.Run{{Verdict: scenario.Failed}}}, nil
				}
				return outcome{}, &scenario.Report{}, nil
			})
			if err := r.all(ctx); err != nil {
				t.Fatal(err)
			}
			want := []string{PageFile, "order-7.html", "order-7.log", "order-7.yaml", ResultFile}
			slices.Sort(want)
			if diff := cmp.Diff(want, killed); diff != "" {
				t.Errorf("the corpus of a process that is killed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, filesOf(t, o.Corpus)); diff != "" {
				t.Errorf("the corpus after Ctrl-C (-want +got):\n%s", diff)
			}
			if r.result.Schedules != tc.schedules {
				t.Errorf("%d schedules have ended, want %d", r.result.Schedules, tc.schedules)
			}
			kept := read[Result](t, filepath.Join(o.Corpus, ResultFile))
			for _, f := range r.result.Failures {
				f.Report, f.Log = nil, "" // they are files of their own
			}
			r.result.Started = kept.Started // the same, but for the clock of this process
			if diff := cmp.Diff(r.result, kept); diff != "" || len(kept.Failures) != 1 || len(kept.Covered) == 0 {
				t.Errorf("%s (-returned +kept):\n%s", ResultFile, diff)
			}
			if _, err := source.Load([]string{filepath.Join(o.Corpus, "order-7.yaml")}, source.Options{}); err != nil {
				t.Errorf("the failure cannot be run again: %v", err)
			}
		})
	}
}

// A run in which nothing fails leaves its figures.
func TestNothingFails(t *testing.T) {
	o := Options{Seed: 7, Count: 3, Parallel: 1, Corpus: t.TempDir()}.Complete()
	r := serial(o, func(context.Context, Schedule) (outcome, *scenario.Report, error) {
		return outcome{}, &scenario.Report{}, nil
	})
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ResultFile, PageFile}, filesOf(t, o.Corpus)); diff != "" {
		t.Errorf("the corpus (-want +got):\n%s", diff)
	}
	if kept := read[Result](t, filepath.Join(o.Corpus, ResultFile)); kept.Schedules != 3 {
		t.Errorf("kept is %+v", kept)
	}
}

// Failures that become one leave the files of one.
func TestFilesOfMergedFailures(t *testing.T) {
	o := Options{Seed: 1, Count: 12, Parallel: 1, Corpus: t.TempDir(), MostFailures: 100}.Complete()
	r := serial(o, func(_ context.Context, s Schedule) (outcome, *scenario.Report, error) {
		if !s.has(func(m *move) bool { return m.name == release }) {
			return outcome{}, &scenario.Report{}, nil
		}
		return outcome{invariant: "requests", seen: "5 were lost"}, &scenario.Report{}, nil
	})
	r.began = time.Now()
	if err := r.workers(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := len(r.result.Failures)
	if files := filesOf(t, o.Corpus); found < 2 || len(files) != 2*found+2 {
		t.Fatalf("%d failures were found, and the corpus has %v", found, files)
	}
	if err := r.reduceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.result.Failures) != 1 {
		t.Fatalf("%d failures are left", len(r.result.Failures))
	}
	f := r.result.Failures[0]
	want := []string{f.File, f.page(), ResultFile, PageFile}
	slices.Sort(want)
	if diff := cmp.Diff(want, filesOf(t, o.Corpus)); diff != "" {
		t.Errorf("the corpus (-want +got):\n%s", diff)
	}
}

// A corpus that cannot be written ends the run.
func TestCorpusThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	r := serial(Options{Seed: 1, Count: 9, Parallel: 1, Corpus: file}.Complete(), func(context.Context, Schedule) (outcome, *scenario.Report, error) {
		tries++
		return outcome{invariant: "order"}, &scenario.Report{}, nil
	})
	if err := r.all(t.Context()); err == nil || tries != 1 || r.result.Error == "" {
		t.Errorf("error %v after %d tries, %q in the result", err, tries, r.result.Error)
	}
}

// sample is a result with three groups of failures.
func sample() *Result {
	var seen coverage
	r := &Result{Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Seed: 1234, Elapsed: 10 * time.Minute, Unclear: 2, Unjudged: []string{"it was late <b>", "the broker has ended"}}
	for seed := range uint64(220) {
		s := seen.prefer([]Schedule{generator{}.draw(4 * seed), generator{}.draw(4*seed + 1)})
		r.Schedules++
		r.Moves += len(s.Moves)
	}
	r.Covered = seen.list()
	r.Pairs = len(r.Covered)
	failed := &scenario.Report{Runs: []*scenario.Run{{Scenario: "fuzz-1", File: "gone", Again: "gone", Namespace: "fuzz-1-abc", Verdict: scenario.Passed, Elapsed: 4 * time.Second, Started: r.Started.Add(time.Minute),
		Steps: []*scenario.Step{{Name: "release", Action: "apply", Verdict: scenario.Passed}}}}}
	r.Failures = []*Failure{
		{Invariant: "requests", Seed: 5, Seen: "stream service1: 5 of 1204 requests were lost", Failed: 11, Repeated: 12, Times: 7, File: "requests-5.yaml", Report: failed,
			Smallest: Schedule{Seed: 5, Moves: []Move{{When: AtOnce, Do: release}, {When: InstallBegun, Do: "broker killed"}}}},
		{Invariant: "the controller runs", Seed: 6, Seen: `it ended: <script>alert("x")</script>`, Times: 1, File: "the-controller-runs-6.yaml",
			Smallest: Schedule{Seed: 6, Moves: []Move{{When: Settled, Do: "controller paused", Replica: 2}}}},
		{Invariant: "at rest", Seed: 9, Seen: "not within 75s: " + strings.Repeat("Pod biz1-7f8 is not Ready; ", 9), Failed: 1, Repeated: 12, Times: 1, File: "at-rest-9.yaml", Report: failed,
			Smallest: generator{}.draw(9)},
	}
	return r
}

// go test -run TestPage -look FILE writes the page for a browser.
func TestPage(t *testing.T) {
	r := sample()
	r.Covered = append(r.Covered, Covered{First: crash, Second: crash, When: Settled, Times: 1e6})
	if *look != "" {
		if err := report.Save(*look, r, WriteHTML); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if err := WriteHTML(&text, r); err != nil {
		t.Fatal(err)
	}
	page, err := html.Parse(&text)
	if err != nil {
		t.Fatal(err)
	}
	var links, figures, headings, rows []string
	cells := map[string]string{} // by the first line of their titles
	for n := range page.Descendants() {
		switch n.Data {
		case "script", "link", "img", "iframe":
			t.Errorf("the page has a %s", n.Data)
		case "a":
			links = append(links, attribute(n, "href"))
		case "td":
			if title := attribute(n, "title"); title == "" && len(figures) < 6 {
				figures = append(figures, textOf(n))
			} else if title != "" {
				first, rest, _ := strings.Cut(title, "\n")
				cells[first] = textOf(n) + "\n" + rest
			}
		case "th":
			switch attribute(n, "scope") {
			case "col":
				headings = append(headings, textOf(n))
			case "row":
				rows = append(rows, textOf(n))
			}
		}
	}
	if diff := cmp.Diff([]string{"requests-5.yaml", "requests-5.html", "the-controller-runs-6.yaml", "at-rest-9.yaml", "at-rest-9.html"}, links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1234", "220", "1320", report.Number(r.Moves), report.Number(r.Pairs), "2"}, figures); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Names(), headings); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append([]string{"(begins)"}, Names()...), rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	times, n := 0, 0
	for _, c := range r.Covered {
		if c.First == crash && c.Second == crash {
			times, n = times+c.Times, n+1
		}
	}
	title := "base crashes, then base crashes: " + strconv.Itoa(times)
	if got := cells[title]; !strings.HasPrefix(got, strconv.Itoa(n)+"/"+strconv.Itoa(times)+"\n") || !strings.Contains(got, "every Pod is Ready: 1000000") {
		t.Errorf("the cell %q is %q", title, got)
	}
	if want := len(Names()) * (len(Names()) + 1); len(cells) != want {
		t.Errorf("%d cells, want %d", len(cells), want)
	}
	for _, want := range []string{"not repeated", "11 of 12", "an install has begun: broker killed", `<script>alert("x")</script>`, "it was late <b>"} {
		if !strings.Contains(textOf(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	names, only := mapOf(&Result{Only: []string{release}, Covered: []Covered{{Second: release, When: AtOnce, Times: 3}}})
	if diff := cmp.Diff([]mapRow{{Cells: []mapCell{{"begins, then release: 3\nat once: 3", 1, 3}}}, {Name: release, Cells: []mapCell{{"release, then release: 0", 0, 0}}}}, only); diff != "" {
		t.Errorf("the map of %v (-want +got):\n%s", names, diff)
	}
}

func TestVerdictOfThePage(t *testing.T) {
	for want, r := range map[string]*Result{
		"failed":  {Schedules: 2, Failures: []*Failure{{}}, Error: "x"},
		"errored": {Schedules: 2, Error: "x"},
		"passed":  {Schedules: 2},
		"skipped": {},
	} {
		if got := (index{Result: r}).Verdict(); got != want {
			t.Errorf("%+v is %s, want %s", r, got, want)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data)
		}
	}
	return text.String()
}

// A failure is a testcase, whose name is the same in another run; so is that nothing has failed.
func TestJUnit(t *testing.T) {
	type problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Name    string   `xml:"name,attr"`
		File    string   `xml:"file,attr"`
		Failure *problem `xml:"failure"`
		Error   *problem `xml:"error"`
		Skipped *problem `xml:"skipped"`
		Output  string   `xml:"system-out"`
	}
	for name, tc := range map[string]struct {
		result *Result
		want   []string // name and file, and how it ended
	}{
		"failures": {sample(), []string{
			"fuzz [requests=broker killed, release] requests-5.yaml failed: stream service1: 5 of 1204 requests were lost",
			`fuzz [the controller runs=controller paused] the-controller-runs-6.yaml failed: it ended: <script>alert("x")</script>`,
			"fuzz [at rest=" + sample().Failures[2].moves() + "] at-rest-9.yaml failed: " + sample().Failures[2].Seen,
		}},
		"nothing has failed":  {&Result{Schedules: 30, Moves: 90, Pairs: 12}, []string{"fuzz  passed: 30 schedules with 90 moves, 12 pairs of moves: nothing has failed"}},
		"it could not go on":  {&Result{Schedules: 30, Error: "the disk is full"}, []string{"fuzz  error: the disk is full"}},
		"Ctrl-C at the start": {&Result{}, []string{"fuzz  skipped: no schedule has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := WriteJUnit(&text, tc.result); err != nil {
				t.Fatal(err)
			}
			var doc struct {
				Suites []struct {
					Cases []testcase `xml:"testcase"`
				} `xml:"testsuite"`
			}
			if err := xml.Unmarshal(text.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range doc.Suites {
				for _, c := range s.Cases {
					end, _, _ := strings.Cut("passed: "+c.Output, "\n")
					switch {
					case c.Failure != nil:
						end = "failed: " + c.Failure.Message
						if !strings.Contains(c.Failure.Text, "moves: ") {
							t.Errorf("the failure tells %q", c.Failure.Text)
						}
					case c.Error != nil:
						end = "error: " + c.Error.Message
					case c.Skipped != nil:
						end = "skipped: " + c.Skipped.Message
					}
					got = append(got, c.Name+" "+c.File+" "+end)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if name == "failures" && (!strings.Contains(text.String(), "Again: koupsandbox scenario run --up --repeat 20 requests-5.yaml") || strings.Contains(text.String(), "gone")) {
				t.Errorf("the evidence has not the file of the corpus:\n%s", text.String())
			}
		})
	}
}
