package scenarios

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// What cannot be run is told before anything starts.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const (
		cannot  = "koupsandbox: the scenarios cannot be run:\n"
		noFault = `Forbidden: "explode" unknown, use one of actuatorDown, clockSkew, corrupt, crash, deaf, delay, disconnect, duplicate, error, flapping, hang, latency, metaspaceFull, reorder, silent, slowLink, stale, startFailed, uninstalled, webRefuse`
	)
	for name, c := range map[string]struct {
		scenario string // whose namespace must not be there; empty = another test runs it
		args     []string
		says     string
	}{
		"ten mistakes": {
			scenario: "ten-mistakes", args: []string{testdata("ten-mistakes")},
			says: cannot +
				`testdata/ten-mistakes.yaml:8: spec.timeout: "soon" cannot be read as a time with its unit, such as 90s or 2m` + "\n" +
				"testdata/ten-mistakes.yaml:9: spec.varz: is not a field; the fields here are: always, bases, checks, controller, description, exclusive, " +
				"finally, matrix, never, source, speed, stepTimeout, steps, timeout, vars\n" +
				`testdata/ten-mistakes.yaml:11: spec.bases[0].count: must be a whole number, but is "many"` + "\n" +
				`testdata/ten-mistakes.yaml:12: spec.bases[1].tunnel: Unsupported value: "tcp": supported values: "mqtt", "http"` + "\n" +
				"testdata/ten-mistakes.yaml:14: spec.steps[0].apply.file: testdata/no-such-file.yaml: there is no such file or folder\n" +
				`testdata/ten-mistakes.yaml:15: spec.steps[1].fault.set.bases[0]: Invalid value: "west": there is no such set of bases, only east, south` + "\n" +
				"testdata/ten-mistakes.yaml:16: spec.steps[2].fault.set.fault.kind: " + noFault + "\n" +
				"testdata/ten-mistakes.yaml:17: spec.steps[3].sleep.reason: Required value: say why nothing else will do: waiting for what is meant is faster and surer\n" +
				"testdata/ten-mistakes.yaml:18: spec.steps[4].traffic.start.judge: there is no losd; did you mean lost?\n    losd == 0\n    ^\n" +
				"testdata/ten-mistakes.yaml:19: spec.steps[5].assert.cel: there is no function al; did you mean all?\n    pods.al(p, true)\n           ^\n",
		},
		"unknown fault": {
			scenario: "unknown-fault", args: []string{testdata("unknown-fault")},
			says: cannot + "testdata/unknown-fault.yaml:11: spec.steps[0].fault.set.fault.kind: " + noFault + "\n",
		},
		"unknown base": {
			scenario: "unknown-base", args: []string{testdata("unknown-base")},
			says: cannot + `testdata/unknown-base.yaml:11: spec.steps[0].base.remove[0]: Invalid value: "west-1": there is no such set of bases, only base` + "\n",
		},
		"missing file": {
			scenario: "missing", args: []string{testdata("missing")},
			says: cannot + "testdata/missing.yaml: there is no such file or folder\n",
		},
		"wrong sandbox": {
			args: []string{"--name", "elsewhere", testdata("small")},
			says: "koupsandbox: sandbox \"elsewhere\" is not up; bring it up with: koupsandbox up --name elsewhere; or let run do it: --up\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, report := begin(t, nil, c.args...).end(t)
			topic := "scenario run --help"
			if strings.HasPrefix(c.says, cannot) {
				topic = "scenario explain"
			}
			want := box.Result{Err: c.says + "see: koupsandbox " + topic + "\n", Status: 2}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if report != nil {
				t.Errorf("a report was written: %+v", report)
			}
			if c.scenario != "" {
				if made := namespaces(t, c.scenario); len(made) > 0 {
					t.Errorf("it has made %v", made)
				}
			}
		})
	}
}

// What only the API knows to be wrong fails the step, in a sentence.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{
		"refused":      `step "apply Service/stock": applying Service stock: Service "stock" is invalid: spec.ports: Required value`,
		"unknown-kind": `step "apply Rollout/stock": the API has no kind Rollout of argoproj.io/v1alpha1: no matches for kind "Rollout" in version "argoproj.io/v1alpha1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, report := play(t, 1, nil, testdata(name))
			if of := report.Runs[0]; of.Verdict != scenario.Failed || of.Failure != why {
				t.Errorf("it has %s: %s\nwant: %s", of.Verdict, of.Failure, why)
			}
			if !strings.Contains(result.Out, why) {
				t.Errorf("it does not say %q:\n%s", why, result.Out)
			}
		})
	}
}
