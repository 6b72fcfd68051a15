package report_test

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// sampleReport returns the report in testdata/sample.json. It contains four runs: a lossless rolling update on four
// bases, during which the controller is killed; a DaemonSet that deletes Pods before it creates new ones, and
// therefore loses requests; a skipped run; and an errored run.
func sampleReport() *scenario.Report {
	text, err := os.ReadFile("testdata/sample.json")
	if err != nil {
		panic(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	r := &scenario.Report{}
	if err := decoder.Decode(r); err != nil {
		panic(err)
	}
	return r
}
