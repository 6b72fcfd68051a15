package bench

import (
	"math"
	"slices"
)

// percentile is the smallest value that at least p per cent of the values are not above: the nearest rank,
// as clusterloader2 computes it. The values are sorted; of none it is 0.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(float64(len(sorted))*p/100)), 1)-1]
}

// percentiles are those that every measure tells, of values in any order.
func percentiles(values []float64) map[string]float64 {
	sorted := slices.Sorted(slices.Values(values))
	data := map[string]float64{}
	for _, p := range shares {
		data[p.name] = percentile(sorted, p.share)
	}
	return data
}

// shares are the percentiles that measures tell. least is how many samples a run must have, so that one
// lies beyond the percentile: of fewer it is only their maximum.
var shares = []struct {
	name  string
	share float64
	least int
}{{Perc50, 50, 2}, {Perc90, 90, 10}, {Perc99, 99, 100}}

// median of values in any order; of an even number the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// deviation is the median of the distances from the median (MAD).
func deviation(values []float64) float64 {
	middle := median(values)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - middle)
	}
	return median(distances)
}
