package scenarios

import (
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// TestRejectedObjects checks that a step that applies an object fails with the message of the API server if the API
// server rejects the object.
func TestRejectedObjects(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{
		"refused":      `Service "stock" is invalid: spec.ports: Required value`,
		"unknown-kind": `no matches for kind "Rollout" in version "argoproj.io/v1alpha1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, report := run(t, 1, nil, testdata(name))
			if of := report.Runs[0]; of.Result != scenario.Failed || !strings.HasSuffix(of.Failure, why) {
				t.Errorf("result %s: %s\nwant failure: %s", of.Result, of.Failure, why)
			}
			if !strings.Contains(result.Out, why) {
				t.Errorf("the output does not contain %q:\n%s", why, result.Out)
			}
		})
	}
}
