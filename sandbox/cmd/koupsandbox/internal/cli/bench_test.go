package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBenchRejectsInvalidArguments checks that bench rejects invalid arguments before the first run.
func TestBenchRejectsInvalidArguments(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		"fixed.yaml": "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Scenario\nmetadata: {name: fixed}\nspec:\n  " +
			"description: The number of bases is not a variable.\n" +
			"  steps:\n    - sleep: {for: 1s, reason: there is nothing to wait for}\n",
		"base.txt": "BenchmarkStartup 1 1 p50-ms\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		line  []string
		names string
	}{
		{[]string{"--bases", "2,2"}, "--bases 2,2"},
		{[]string{"--bases", "2, x"}, `" x" --bases 100,1000`},
		{[]string{"--bases", "0"}, `"0" --bases 100,1000`},
		{[]string{"--bases", "2", "--var", "bases=3"}, "--bases --var"},
		{[]string{"--bases", "2", "HOME/fixed.yaml"}, "--bases HOME/fixed.yaml vars:"},
		{[]string{"--runs", "0"}, "--runs 1"},
		{[]string{"--runs", "2", "--baseline", "HOME/base.txt"}, "--baseline --runs 4"},
		{[]string{"--baseline", "HOME/fixed.yaml"}, "HOME/fixed.yaml > bench"},
		{[]string{"--baseline", "HOME/none.txt"}, "HOME/none.txt:"},
		{[]string{"--watch", "5s", "--bases", "3"}, "--bases --watch"},
		{[]string{"--watch", "5s", "HOME/fixed.yaml"}, "--watch files"},
		{[]string{"--watch", "1ms"}, "--watch 1s"},
		{[]string{"--speed", "3"}, "--speed --up"},
	} {
		run(t, home, append([]string{"bench"}, tc.line...)...).expect(t, 2, seeHelp("bench"), tc.names)
	}
}
