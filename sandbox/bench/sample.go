package bench

import (
	"math"
	"slices"

	"golang.org/x/perf/benchfmt"
)

// percentileSpecs are the percentiles of a measure. least is the number of samples below which the percentile is only
// their maximum and is left out.
var percentileSpecs = []struct {
	name  string
	share float64
	least int
}{{"p50", 50, 1}, {"p90", 90, 10}, {"p99", 99, 100}}

// percentile returns the nearest rank of sorted values, as clusterloader2 does.
func percentile(sorted []float64, p float64) float64 {
	return sorted[max(int(math.Ceil(float64(len(sorted))*p/100)), 1)-1]
}

// measurement returns a result with the percentiles of the values, which need not be sorted. The name follows that
// of the scenario, such as /measure=pod_startup.
func measurement(name, unit string, values []float64) *benchfmt.Result {
	sorted := slices.Sorted(slices.Values(values))
	return percentiles(name, unit, len(values), func(share float64) float64 { return percentile(sorted, share) })
}

// percentiles returns a result with the percentiles that the number of samples allows. of returns one of them.
func percentiles(name, unit string, samples int, of func(share float64) float64) *benchfmt.Result {
	r := &benchfmt.Result{Name: benchfmt.Name(name), Iters: samples}
	for _, p := range percentileSpecs {
		if samples >= p.least {
			r.Values = append(r.Values, benchfmt.Value{Unit: p.name + "-" + unit, Value: round(of(p.share))})
		}
	}
	return r
}

// round rounds to three decimal places, which are microseconds.
func round(value float64) float64 { return math.Round(value*1e3) / 1e3 }
