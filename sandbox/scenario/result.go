package scenario

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Result of a run, a step or a check.
type Result string

// The verdicts.
const (
	Passed  = Result(events.StepPassed)
	Failed  = Result(events.StepFailed)
	Skipped = Result(events.StepSkipped)
	// Errored: the run could not be judged, because of the scenario itself, of the
	// sandbox, or of a machine so busy that what happened was seen too late.
	Errored = Result(events.StepErrored)
)

// Report is what one call of run has led to. Its JSON form is the JSON report.
type Report struct {
	// Sandbox is the name of the sandbox, Provider and Version its Kubernetes API.
	Sandbox  string `json:"sandbox"`
	Provider string `json:"provider"`
	Version  string `json:"version"`
	// Seed that repeats everything random.
	Seed    uint64        `json:"seed"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed"`
	Runs    []*Run        `json:"runs"`
}

// Result is Passed when every run has passed or was skipped, Errored when one
// is, else Failed.
func (r *Report) Result() Result {
	v := Passed
	for _, run := range r.Runs {
		switch run.Result {
		case Errored:
			return Errored
		case Failed:
			v = Failed
		}
	}
	return v
}

// Run is one run of a scenario.
type Run struct {
	// Scenario is its name, File where it stands.
	Scenario    string            `json:"scenario"`
	File        string            `json:"file"`
	Description string            `json:"description"`
	Source      string            `json:"source,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Cell of the matrix; empty = there is none.
	Cell map[string]any `json:"cell,omitempty"`
	// Attempt counts repetitions from 1.
	Attempt int `json:"attempt"`
	// Speed of the sandbox, by which all periods are divided; 0 = 1.
	Speed int `json:"speed,omitempty"`
	// Seed of this run. It follows from that of the Report.
	Seed uint64 `json:"seed"`
	// RerunCommand is the command that repeats the run with everything random as it was.
	RerunCommand string        `json:"again,omitempty"`
	Namespace    string        `json:"namespace"`
	Result       Result        `json:"verdict"`
	Started      time.Time     `json:"started"`
	Elapsed      time.Duration `json:"elapsed"`
	Steps        []*Step       `json:"steps"`
	Checks       []Check       `json:"checks,omitempty"`
	Traffic      []Traffic     `json:"traffic,omitempty"`
	// Delay is the longest delay of this machine that was measured in the run: how late a request was sent, or the run saw
	// what had happened. A run that failed with a long Delay is Errored.
	Delay time.Duration `json:"delay,omitempty"`
	// FirstFailure is why the run is the second one, after an inconclusive one; empty = it is the first.
	FirstFailure string `json:"repeated,omitempty"`
	// Failure says why the run has not passed, in one sentence; Details have what
	// helps to understand it: the diff, the Pod's events, what the base said.
	Failure string   `json:"failure,omitempty"`
	Details []Detail `json:"details,omitempty"`
	// Timeline has everything that was seen, in order.
	Timeline []events.Event `json:"timeline,omitempty"`
}

// Step is one step that was done.
type Step struct {
	Name string `json:"name"`
	// Action is the name of its action, such as apply.
	Action  string        `json:"action"`
	Line    int           `json:"line,omitempty"`
	Result  Result        `json:"verdict"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed"`
	// Message says what it did, or why it failed or was skipped.
	Message string  `json:"message,omitempty"`
	Steps   []*Step `json:"steps,omitempty"`
}

// Check is what a built-in check, or an invariant, has found.
type Check struct {
	// Name as in the scenario's checks, or of the invariant.
	Name string `json:"name"`
	// Expect is holds, violated or ignored.
	Expect string `json:"expect"`
	Result Result `json:"verdict"`
	// Summary is a sentence with the figures: the shortest overlap, and so on.
	Summary string `json:"summary"`
	// Compared is how many things it has looked at; 0 = it proves nothing.
	Compared int `json:"compared"`
	// Violations in the order of time.
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is one violation of a check.
type Violation struct {
	Time time.Time `json:"time"`
	// Length is the duration; 0 = an instant.
	Length time.Duration `json:"length,omitempty"`
	Base   string        `json:"base,omitempty"`
	Pod    string        `json:"pod,omitempty"`
	// Message describes the violation in a sentence.
	Message string `json:"message"`
}

// Traffic is what became of a stream of requests.
type Traffic struct {
	traffic.Summary
	// Judge is the expression, Verdict what it said.
	Judge  string `json:"judge"`
	Result Result `json:"verdict"`
	// Seconds has the requests by the second of the run, from its start.
	Seconds []traffic.Second `json:"seconds,omitempty"`
	// Bins has them by shorter times of BinWidth each, from the start of the stream; none for a long
	// stream.
	BinWidth time.Duration `json:"binWidth,omitempty"`
	Bins     []traffic.Bin `json:"bins,omitempty"`
	// Lost are the requests that were lost, at most the first 1,000; the Summary
	// counts all, as lost in JSON too.
	Lost []traffic.Record `json:"lostRequests,omitempty"`
}

// Detail is a piece of evidence.
type Detail = steps.Detail
