package scenario

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// A machine that stood still is no excuse for anything but requests without an answer in time, unless it
// stood still for long.
func TestTooBusy(t *testing.T) {
	stream := func(late time.Duration, lost int, results map[traffic.Result]int) Traffic {
		return Traffic{Verdict: Failed, Summary: traffic.Summary{Late: late, Lost: lost, Results: results}}
	}
	timeouts := map[traffic.Result]int{traffic.OK: 90, traffic.Timeout: 10}
	cutOff := func(late, takes time.Duration) Traffic {
		t := stream(late, 10, map[traffic.Result]int{traffic.OK: 90, traffic.Reset: 10})
		t.P50 = takes
		return t
	}
	for name, test := range map[string]struct {
		run  Run
		busy bool
	}{
		"timeouts and a late machine":        {run: Run{Traffic: []Traffic{stream(lateEnough, 10, timeouts)}}, busy: true},
		"timeouts and a machine on time":     {run: Run{Traffic: []Traffic{stream(lateEnough-1, 10, timeouts)}}},
		"other losses and a late machine":    {run: Run{Traffic: []Traffic{stream(lateEnough, 11, timeouts)}}},
		"other losses, a very late machine":  {run: Run{Traffic: []Traffic{stream(tooLate+1, 11, timeouts)}}, busy: true},
		"timeouts and a check that failed":   {run: Run{Traffic: []Traffic{stream(lateEnough, 10, timeouts)}, Checks: []Check{{Verdict: Failed}}}},
		"timeouts and a step that failed":    {run: Run{Traffic: []Traffic{stream(lateEnough, 10, timeouts)}, Steps: []*Step{{Verdict: Failed}}}},
		"other losses at speed 5, held up":   {run: Run{Speed: 5, Traffic: []Traffic{stream(api.Drain/5+1, 1, timeouts)}}, busy: true},
		"other losses at speed 5, in time":   {run: Run{Speed: 5, Traffic: []Traffic{stream(api.Drain/5, 1, timeouts)}}},
		"cut off at speed 5, held up":        {run: Run{Speed: 5, Traffic: []Traffic{cutOff(101*time.Millisecond, 100*time.Millisecond)}}, busy: true},
		"cut off at speed 5, in time":        {run: Run{Speed: 5, Traffic: []Traffic{cutOff(100*time.Millisecond, 100*time.Millisecond)}}},
		"cut off at speed 1":                 {run: Run{Traffic: []Traffic{cutOff(lateEnough, 100*time.Millisecond)}}},
		"cut off, and a check that failed":   {run: Run{Speed: 5, Traffic: []Traffic{cutOff(300*time.Millisecond, 100*time.Millisecond)}, Checks: []Check{{Verdict: Failed}}}},
		"only another stream's machine late": {run: Run{Traffic: []Traffic{stream(0, 10, timeouts), {Verdict: Passed, Summary: traffic.Summary{Late: lateEnough}}}}},
		"told too late what happened":        {run: Run{Verdict: Errored, Failure: lateness(2 * tooLate).Error()}, busy: true},
		"a sandbox that is gone":             {run: Run{Verdict: Errored, Failure: errBroken.Error()}},
		"a late machine and nothing lost":    {run: Run{Traffic: []Traffic{{Verdict: Passed, Summary: traffic.Summary{Late: lateEnough}}}}},
	} {
		if busy := test.run.TooBusy() != ""; busy != test.busy {
			t.Errorf("%s: too busy is %v", name, busy)
		}
	}
}

// Events of progress and the report of a run have no credentials of URLs, from the variables of the scenario to the
// message of a step that fails.
func TestRunsHaveNoCredentials(t *testing.T) {
	var events []Event
	e := begin(t, Options{Progress: func(e Event) { events = append(events, e) }}, `
matrix: {image: ["https://user:hunter2@repo.example/a.jar"]}
steps:
  - script: {content: "echo 'denied: https://repo.example/a.jar?Signature=hunter2' >&2; echo ${{ matrix.image }}; exit 1"}
`)
	if err := e.body(t.Context()); err == nil {
		t.Fatal("the step did not fail")
	} else {
		e.must(err)
	}
	run := e.finish(t.Context())
	if run.Verdict != Failed || !strings.Contains(run.Failure+run.Details[0].Text, "***") || len(events) == 0 {
		t.Errorf("%d events, run %+v", len(events), run)
	}
	text, err := json.Marshal([]any{events, run})
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("error %v, report %s", err, text)
	}
}
