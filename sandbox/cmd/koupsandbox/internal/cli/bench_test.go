package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What cannot be measured is said before anything begins.
func TestBenchIsMisused(t *testing.T) {
	const see = "\nsee: koupsandbox bench --help\n"
	home := t.TempDir()
	for name, text := range map[string]string{
		"fixed.yaml": "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Scenario\nmetadata: {name: fixed}\nspec:\n  description: It has as many bases as it says.\n" +
			"  steps:\n    - sleep: {for: 1s, reason: there is nothing to wait for}\n",
		"base.json": `{"format": 1, "runs": [{"scenario": "startup", "bases": 1, "verdict": "passed"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		line []string
		says string
	}{
		{[]string{"--bases", "2,2"}, "--bases 2,2 names a number twice"},
		{[]string{"--bases", "2, x"}, `--bases takes numbers of bases such as 100,1000, and " x" is none`},
		{[]string{"--bases", "0"}, `--bases takes numbers of bases such as 100,1000, and "0" is none`},
		{[]string{"--bases", "2", "--var", "bases=3"}, "--bases sets the variable bases, and so does --var: leave one out"},
		{[]string{"--bases", "2", "HOME/fixed.yaml"}, "HOME/fixed.yaml has no variable bases, which --bases sets: give it one (vars: {bases: 4}), and under bases count: ${{ vars.bases }}"},
		{[]string{"--runs", "0"}, "--runs must be 1 or more"},
		{[]string{"--runs", "2", "--baseline", "HOME/base.json"}, "--baseline needs --runs 3 or more: of fewer nobody knows the noise"},
		{[]string{"--baseline", "HOME/fixed.yaml"}, "HOME/fixed.yaml is no result of koupsandbox bench: invalid character 'a' looking for beginning of value"},
		{[]string{"--baseline", "HOME/none.json"}, "reading the baseline: open HOME/none.json: no such file or directory"},
		{[]string{"--watch", "5s", "--bases", "3"}, "--bases is for runs of scenarios, and --watch runs none"},
		{[]string{"--watch", "5s", "HOME/fixed.yaml"}, "--watch runs no scenarios: leave the files out"},
		{[]string{"--watch", "1ms"}, "--watch must be a second or more"},
		{[]string{"--speed", "3"}, "--speed is for the sandbox that --up brings up: add --up, or leave it out"},
	} {
		if diff := cmp.Diff(result{2, "", "koupsandbox: " + tc.says + see}, run(t, home, append([]string{"bench"}, tc.line...)...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.line, diff)
		}
	}
}
