package bench

import (
	"math"
	"slices"

	"golang.org/x/perf/benchfmt"
)

// percentileSpecs lists the percentiles of a measure. The field least is the minimum number of samples. A percentile
// with fewer samples is omitted, because it would be equal to the maximum.
var percentileSpecs = []struct {
	name  string
	share float64
	least int
}{{"p50", 50, 1}, {"p90", 90, 10}, {"p99", 99, 100}}

// percentile returns a percentile of sorted values by the nearest-rank method, like clusterloader2.
func percentile(sorted []float64, p float64) float64 {
	return sorted[max(int(math.Ceil(float64(len(sorted))*p/100)), 1)-1]
}

// measurement returns a result with the percentiles of values, which may be unsorted. The name, for example
// /measure=pod_startup, is appended to the name of the scenario.
func measurement(name, unit string, values []float64) *benchfmt.Result {
	sorted := slices.Sorted(slices.Values(values))
	return percentiles(name, unit, len(values), func(share float64) float64 { return percentile(sorted, share) })
}

// percentiles returns a result that contains every percentile with enough samples. It calls of to get the value of a
// percentile.
func percentiles(name, unit string, samples int, of func(share float64) float64) *benchfmt.Result {
	r := &benchfmt.Result{Name: benchfmt.Name(name), Iters: samples}
	for _, p := range percentileSpecs {
		if samples >= p.least {
			r.Values = append(r.Values, benchfmt.Value{Unit: p.name + "-" + unit, Value: round(of(p.share))})
		}
	}
	return r
}

// round rounds a value in milliseconds to three decimal places (microseconds).
func round(value float64) float64 { return math.Round(value*1e3) / 1e3 }
