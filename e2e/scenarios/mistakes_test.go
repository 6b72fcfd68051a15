package scenarios

import (
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// What only the API knows to be wrong fails the step, in a sentence.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{
		"refused":      `Service "stock" is invalid: spec.ports: Required value`,
		"unknown-kind": `no matches for kind "Rollout" in version "argoproj.io/v1alpha1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, report := play(t, 1, nil, testdata(name))
			if of := report.Runs[0]; of.Result != scenario.Failed || !strings.HasSuffix(of.Failure, why) {
				t.Errorf("it has %s: %s\nwant: %s", of.Result, of.Failure, why)
			}
			if !strings.Contains(result.Out, why) {
				t.Errorf("it does not say %q:\n%s", why, result.Out)
			}
		})
	}
}
