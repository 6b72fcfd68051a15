package scenario

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Result is the result of a run, a step or a check.
type Result string

// The results of runs, steps and checks.
const (
	Passed  = Result(events.StepPassed)
	Failed  = Result(events.StepFailed)
	Skipped = Result(events.StepSkipped)
	// Errored: the run has no valid result, because of an error in the scenario, a failure of the sandbox, or a machine
	// so slow that events were observed too late.
	Errored = Result(events.StepErrored)
)

// Report contains the results of one call of Execute. The JSON report has the same structure.
type Report struct {
	// Sandbox is the name of the sandbox. Provider is its Kubernetes provider, and Version its Kubernetes version.
	Sandbox  string `json:"sandbox"`
	Provider string `json:"provider"`
	Version  string `json:"version"`
	// Seed is the random seed that reproduces the runs.
	Seed    uint64        `json:"seed"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed"`
	Runs    []*Run        `json:"runs"`
}

// Result returns Errored if a run is Errored, otherwise Failed if a run is Failed, and otherwise Passed.
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
	// Scenario is the name of the scenario. File is the path of the scenario file.
	Scenario    string            `json:"scenario"`
	File        string            `json:"file"`
	Description string            `json:"description"`
	Source      string            `json:"source,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Cell is the matrix cell of the run; empty if the scenario has no matrix.
	Cell map[string]any `json:"cell,omitempty"`
	// Attempt is the number of this repetition of the scenario, from 1.
	Attempt int `json:"attempt"`
	// Speed is the time scale of the sandbox. All periods are divided by Speed. 0 means 1.
	Speed int `json:"speed,omitempty"`
	// Seed is the random seed of this run. It is derived from the seed of the Report.
	Seed uint64 `json:"seed"`
	// RerunCommand is the command that repeats the run with the same random values.
	RerunCommand string        `json:"again,omitempty"`
	Namespace    string        `json:"namespace"`
	Result       Result        `json:"verdict"`
	Started      time.Time     `json:"started"`
	Elapsed      time.Duration `json:"elapsed"`
	Steps        []*Step       `json:"steps"`
	Checks       []Check       `json:"checks,omitempty"`
	Traffic      []Traffic     `json:"traffic,omitempty"`
	// Delay is the longest delay that was measured during the run, either in sending a request or in observing an
	// event. A failed run with a long Delay is Errored.
	Delay time.Duration `json:"delay,omitempty"`
	// FirstFailure is the Failure of the first attempt if that attempt was inconclusive and this run is its
	// repetition. Otherwise, it is empty.
	FirstFailure string `json:"repeated,omitempty"`
	// Failure is the reason why the run has not passed, in one sentence. Details contains the evidence, such as the
	// diff, the Pod events and the commands of the bases.
	Failure string   `json:"failure,omitempty"`
	Details []Detail `json:"details,omitempty"`
	// Timeline lists all observed events in order.
	Timeline []events.Event `json:"timeline,omitempty"`
}

// Step is one execution of a step.
type Step struct {
	Name string `json:"name"`
	// Action is the name of the action, such as apply.
	Action  string        `json:"action"`
	Line    int           `json:"line,omitempty"`
	Result  Result        `json:"verdict"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed"`
	// Message describes the effect of the step, or the reason why the step failed or was skipped.
	Message string  `json:"message,omitempty"`
	Steps   []*Step `json:"steps,omitempty"`
}

// Check is the result of a built-in check or of an invariant.
type Check struct {
	// Name is the name of the check or of the invariant, as in the scenario.
	Name string `json:"name"`
	// Expect is the expected result: holds, violated or ignored.
	Expect string `json:"expect"`
	Result Result `json:"verdict"`
	// Summary describes the result in a sentence, with numbers such as the shortest overlap.
	Summary string `json:"summary"`
	// Compared is the number of compared items. If it is 0, the check proves nothing.
	Compared int `json:"compared"`
	// Violations lists the violations in chronological order.
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is a single violation of a check.
type Violation struct {
	Time time.Time `json:"time"`
	// Length is the duration of the violation; 0 means a single point in time.
	Length time.Duration `json:"length,omitempty"`
	Base   string        `json:"base,omitempty"`
	Pod    string        `json:"pod,omitempty"`
	// Message describes the violation in a sentence.
	Message string `json:"message"`
}

// Traffic is the result of a stream of requests.
type Traffic struct {
	traffic.Summary
	// Judge is the judge expression of the stream. Result is Passed or Failed. A stream also fails if it sent no
	// requests, stopped early, or its judge expression has no value or compared no requests.
	Judge  string `json:"judge"`
	Result Result `json:"verdict"`
	// Seconds contains the request counts for each second from the start of the stream.
	Seconds []traffic.Second `json:"seconds,omitempty"`
	// Bins contains the request counts for each interval of length BinWidth, from the start of the stream. It is
	// empty for long streams.
	BinWidth time.Duration `json:"binWidth,omitempty"`
	Bins     []traffic.Bin `json:"bins,omitempty"`
	// Lost lists the first 1,000 lost requests. Summary.Lost (lost in JSON) is the total number of lost requests.
	Lost []traffic.Record `json:"lostRequests,omitempty"`
}

// Detail is a piece of evidence.
type Detail = steps.Detail
