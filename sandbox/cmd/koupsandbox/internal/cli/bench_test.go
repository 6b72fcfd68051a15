package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Invalid arguments are rejected before the first run.
func TestBenchIsMisused(t *testing.T) {
	const see = "\nsee: koupsandbox bench --help\n"
	home := t.TempDir()
	for name, text := range map[string]string{
		"fixed.yaml": "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Scenario\nmetadata: {name: fixed}\nspec:\n  description: It has as many bases as it says.\n" +
			"  steps:\n    - sleep: {for: 1s, reason: there is nothing to wait for}\n",
		"base.txt": "BenchmarkStartup 1 1 p50-ms\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		line []string
		says string
	}{
		{[]string{"--bases", "2,2"}, "--bases 2,2 has a duplicate number"},
		{[]string{"--bases", "2, x"}, `invalid number of bases " x" in --bases; use positive integers, such as 100,1000`},
		{[]string{"--bases", "0"}, `invalid number of bases "0" in --bases; use positive integers, such as 100,1000`},
		{[]string{"--bases", "2", "--var", "bases=3"}, "--bases and --var both set the variable bases; use one of them"},
		{[]string{"--bases", "2", "HOME/fixed.yaml"}, "--bases requires the variable bases, which HOME/fixed.yaml does not have; add vars: {bases: 4}, and count: ${{ vars.bases }} to its bases"},
		{[]string{"--runs", "0"}, "--runs must be 1 or more"},
		{[]string{"--runs", "2", "--baseline", "HOME/base.txt"}, "--baseline requires --runs 4 or more; with fewer runs no difference is significant"},
		{[]string{"--baseline", "HOME/fixed.yaml"}, "HOME/fixed.yaml has no benchmark results; create it with: koupsandbox bench > HOME/fixed.yaml"},
		{[]string{"--baseline", "HOME/none.txt"}, "reading benchmark results: open HOME/none.txt: no such file or directory"},
		{[]string{"--watch", "5s", "--bases", "3"}, "--bases cannot be used with --watch, which runs no scenario"},
		{[]string{"--watch", "5s", "HOME/fixed.yaml"}, "--watch runs no scenario; remove the files"},
		{[]string{"--watch", "1ms"}, "--watch must be 1s or more"},
		{[]string{"--speed", "3"}, "--speed is for the sandbox that --up brings up: add --up, or leave it out"},
	} {
		if diff := cmp.Diff(result{2, "", "koupsandbox: " + tc.says + see}, run(t, home, append([]string{"bench"}, tc.line...)...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.line, diff)
		}
	}
}
