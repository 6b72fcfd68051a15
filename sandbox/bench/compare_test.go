package bench

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is the machine configuration that is recorded in the test results.
var machine = map[string]string{"goos": "linux", "goarch": "amd64", "cpu": "a processor", "cores": "2",
	"provider": "embedded"}

// resultsOf returns benchmark results with one value for each run.
func resultsOf(unit string, values ...float64) *Results {
	return &Results{config: machine,
		benchmarks: []*benchmark{{name: "Startup/bases=100/measure=pod_startup", unit: unit, values: values}}}
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now *Results
		want        string // expected change: worse or better; empty if unchanged
	}{
		"the same": {resultsOf("p50-ms", 100, 110, 120, 130), resultsOf("p50-ms", 100, 110, 120, 130),
			""},
		"less than 10 %": {resultsOf("p50-ms", 1000, 1001, 1002, 1003),
			resultsOf("p50-ms", 1050, 1051, 1052, 1053), ""},
		"less than 10 ms": {resultsOf("p50-ms", 1, 1.1, 1.2, 1.3), resultsOf("p50-ms", 3, 3.1, 3.2, 3.3), ""},
		"twice the time": {resultsOf("p50-ms", 100, 101, 102, 103), resultsOf("p50-ms", 200, 201, 202, 203),
			"worse"},
		"half the time": {resultsOf("p50-ms", 200, 201, 202, 203), resultsOf("p50-ms", 100, 101, 102, 103),
			"better"},
		"runs that overlap": {resultsOf("p50-ms", 100, 150, 200, 250), resultsOf("p50-ms", 180, 260, 340, 420),
			""},
		"half the rate": {resultsOf("max-Pods/s", 8, 8.1, 8.2, 8.3),
			resultsOf("max-Pods/s", 4, 4.1, 4.2, 4.3), "worse"},
		"a rate within 1 Pod/s": {resultsOf("max-Pods/s", 2, 2, 2, 2), resultsOf("max-Pods/s", 1.5, 1.5, 1.5, 1.5),
			""},
		"one outlier in each side": {resultsOf("p50-ms", 100, 101, 102, 900), resultsOf("p50-ms", 103, 104, 105, 901),
			""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Compare(tc.before, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, change := range c.Changes {
				got = map[bool]string{true: "worse", false: "better"}[change.Worse]
			}
			if got != tc.want || c.Compared != 1 {
				t.Errorf("changes = %q, compared = %d, want %q", got, c.Compared, tc.want)
			}
		})
	}
}

func TestCompareErrors(t *testing.T) {
	other := maps.Clone(machine)
	other["cores"] = "64"
	for name, tc := range map[string]struct {
		before, now *Results
		want        string
	}{
		"another machine": {resultsOf("p50-ms", 1, 1, 1, 1), &Results{config: other}, `cores "2"`},
		"few runs before": {resultsOf("p50-ms", 1, 1, 1), resultsOf("p50-ms", 1, 1, 1, 1), "--runs 4"},
		"few runs now":    {resultsOf("p50-ms", 1, 1, 1, 1), resultsOf("p50-ms", 1), " 4 passed runs "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Compare(tc.before, tc.now); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "before.txt")
	line := "BenchmarkStartup/bases=100/measure=pod_startup 100 %d p50-ms\n"
	content := "goos: linux\ngoarch: amd64\ncpu: a processor\ncores: 2\nprovider: embedded\n\n" +
		fmt.Sprintf(line, 100) + "another line\n" + fmt.Sprintf(line, 110)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resultsOf("p50-ms", 100, 110), got, cmp.AllowUnexported(Results{}, benchmark{})); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(file, []byte("metadata: {name: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.HasSuffix(err.Error(), ": koupsandbox bench > "+file) {
		t.Errorf("error = %v", err)
	}
}
