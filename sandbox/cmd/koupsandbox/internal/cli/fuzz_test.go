package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What cannot be fuzzed or compared is told before anything comes up.
func TestFuzzMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"--only releases":                    `unknown move "releases"; use one of: release, roll back, `,
		"--parallel 0":                       "--parallel must be 1 or more",
		"--speed 0":                          "--speed is 0: use 1 to 10",
		"--speed 11":                         "--speed is 11: use 1 to 10",
		"--count -1":                         "--count, --for and --shrink not negative",
		"--config HOME/none":                 "reading the settings",
		"schedule.yaml":                      "takes no arguments",
		"--name Not_A_Label":                 "must be a DNS label",
		"--for 5m --seed -10":                `--seed is "-10": use a whole number`,
		"--compare HOME/none":                "reading the settings: open HOME/none",
		"--compare HOME/b.yaml --parallel 1": "--compare needs --parallel 2 or more",
		"--compare HOME/b.yaml --shrink 0":   "--shrink and --compare are mutually exclusive",
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "b.yaml"), []byte("apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run(t, home, append([]string{"fuzz"}, strings.Fields(line)...)...)
		if got.Code == 0 || !strings.Contains(got.Err, want) {
			t.Errorf("fuzz %s: %+v, want %q", line, got, want)
		}
	}
}
