package scenario

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRunsHaveNoCredentials checks that progress events and reports do not contain credentials in URLs, for example
// in variables or in the message of a failed step.
func TestRunsHaveNoCredentials(t *testing.T) {
	var events []ProgressEvent
	e := newTestExecution(t, Options{Progress: func(e ProgressEvent) { events = append(events, e) }}, `
matrix: {image: ["https://user:hunter2@repo.example/a.jar"]}
steps:
  - script: {content: "echo 'denied: https://repo.example/a.jar?Signature=hunter2' >&2; echo ${{ matrix.image }}; exit 1"}
`)
	if err := e.body(t.Context()); err == nil {
		t.Fatal("the step did not fail")
	} else {
		e.failOn(err)
	}
	run := e.finish(t.Context())
	if run.Result != Failed || !strings.Contains(run.Failure+run.Details[0].Text, "***") || len(events) == 0 {
		t.Errorf("%d events, run %+v", len(events), run)
	}
	text, err := json.Marshal([]any{events, run})
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("error %v, report %s", err, text)
	}
}
