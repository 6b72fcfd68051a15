package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

const badManifest = `apiVersion: v1
kind: Pod
metadata:
  name: biz1
  labels: {virtual-kubelet.koupleless.io/component: module}
spec:
  containers:
    - {name: biz1, image: "https://modules.example/biz1-1.0.0-ark-biz.jar"}
  tolerations: [{operator: Exists}]
`

// TestAnnotations checks that, in GitHub Actions, each finding is also printed as a GitHub annotation for the file
// that contains it.
func TestAnnotations(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{"bad.yaml": badScenario, "pod.yaml": badManifest} {
		check.Must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	const findings = "::error file=HOME/bad.yaml,line=6,title=scenario::spec.vars.a: " +
		"::error file=HOME/bad.yaml,line=8,title=scenario::spec.steps[0].sleep.reason: " +
		"::error file=HOME/bad.yaml,line=9,title=scenario::spec.steps[1].assert.cel: all?%0A ^"
	actions := map[string]string{"GITHUB_ACTIONS": "true"}
	for _, tc := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"run with the environment variable", actions, []string{"run", "HOME/bad.yaml"}, findings},
		{"run with the flag", nil, []string{"run", "--github", "HOME/bad.yaml"}, findings},
		{"run outside of GitHub Actions", nil, []string{"run", "HOME/bad.yaml"}, ""},
		{"run with the flag set to false", actions, []string{"run", "--github=false", "HOME/bad.yaml"}, ""},
		{"lint of a manifest", actions, []string{"lint", "--env", "dev", "HOME/pod.yaml"},
			"::warning file=HOME/pod.yaml,line=6,title=affinity-missing:: %0A base.koupleless.io/name " +
				"::error file=HOME/pod.yaml,line=8,title=version-missing::"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runWith(t, home, tc.env, append([]string{"scenario"}, tc.args...)...)
			annotations := ""
			for line := range strings.Lines(got.Err) {
				if strings.HasPrefix(line, "::") {
					annotations += line
				}
			}
			if strings.Contains(got.Out, "::") {
				t.Errorf("standard output has annotations:\n%s", got.Out)
			}
			if tc.args[0] != "lint" && strings.Count(annotations, "::error") != strings.Count(tc.want, "::error") {
				t.Errorf("annotations: %s", annotations)
			}
			check.ContainsWords(t, annotations, tc.want)
		})
	}
}
