package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// TestFuzzRejectsInvalidArguments checks that invalid arguments are reported before a sandbox is created.
func TestFuzzRejectsInvalidArguments(t *testing.T) {
	for line, want := range map[string]string{
		"--only releases":                    `"releases"`,
		"--parallel 0":                       "--parallel",
		"--speed 0":                          "--speed 0; 1 10",
		"--speed 11":                         "--speed 11; 1 10",
		"--count -1":                         "--count",
		"--config HOME/none":                 "HOME/none",
		"schedule.yaml":                      "arguments",
		"--name Not_A_Label":                 "--name 63",
		"--for 5m --seed -10":                `--seed "-10"`,
		"--compare HOME/none":                "HOME/none",
		"--compare HOME/b.yaml --parallel 1": "--compare --parallel 2",
		"--compare HOME/b.yaml --shrink 0":   "--shrink --compare",
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "b.yaml"),
			[]byte("apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run(t, home, append([]string{"fuzz"}, strings.Fields(line)...)...)
		if got.Code == 0 {
			t.Errorf("fuzz %s: %+v", line, got)
		}
		check.ContainsWords(t, got.Err, want)
	}
}
