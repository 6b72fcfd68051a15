package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"
)

// TestPercentiles checks that a percentile is the nearest rank: the 90th percentile of 10 values is the 9th value,
// and the 99th percentile of 101 values is the 100th value. A percentile with too few samples must be omitted.
func TestPercentiles(t *testing.T) {
	upTo := func(n int) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64((i*37)%n + 1) // unsorted
		}
		return values
	}
	for name, tc := range map[string]struct {
		values []float64
		want   string
	}{
		"one": {[]float64{7}, "1 7 p50-ms"},
		"two": {[]float64{9, 1}, "2 1 p50-ms"},
		"9":   {upTo(9), "9 5 p50-ms"},
		"10":  {upTo(10), "10 5 p50-ms 9 p90-ms"},
		"100": {upTo(100), "100 50 p50-ms 90 p90-ms 99 p99-ms"},
		"101": {upTo(101), "101 51 p50-ms 91 p90-ms 100 p99-ms"},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(t, []*benchfmt.Result{measurement("X", milliseconds, tc.values)})
			if diff := cmp.Diff("BenchmarkX "+tc.want+"\n", got); diff != "" {
				t.Errorf("percentiles (-want +got):\n%s", diff)
			}
		})
	}
}
