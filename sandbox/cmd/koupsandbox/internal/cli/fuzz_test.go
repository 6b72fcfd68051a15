package cli_test

import (
	"strings"
	"testing"
)

// What cannot be fuzzed is told before anything comes up.
func TestFuzzMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"--only releases":     `there is no move "releases"; they are: release, roll back, `,
		"--parallel 0":        "--parallel must be 1 or more",
		"--count -1":          "--count, --for and --shrink not negative",
		"--config HOME/none":  "reading the settings",
		"schedule.yaml":       "takes no arguments",
		"--name Not_A_Label":  "must be a DNS label",
		"--for 5m --seed -10": `invalid value "-10" for flag -seed`,
	} {
		got := run(t, t.TempDir(), append([]string{"fuzz"}, strings.Fields(line)...)...)
		if got.Code == 0 || !strings.Contains(got.Err, want) {
			t.Errorf("fuzz %s: %+v, want %q", line, got, want)
		}
	}
}
