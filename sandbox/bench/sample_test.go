package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The nearest rank: with 10 values the 90th percentile is the ninth, and with 101 the 99th is the hundredth.
func TestPercentiles(t *testing.T) {
	upTo := func(n int) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64((i*37)%n + 1) // in no order
		}
		return values
	}
	for name, tc := range map[string]struct {
		values []float64
		want   map[string]float64
	}{
		"none":    {nil, map[string]float64{Perc50: 0, Perc90: 0, Perc99: 0}},
		"one":     {[]float64{7}, map[string]float64{Perc50: 7, Perc90: 7, Perc99: 7}},
		"two":     {[]float64{9, 1}, map[string]float64{Perc50: 1, Perc90: 9, Perc99: 9}},
		"ten":     {upTo(10), map[string]float64{Perc50: 5, Perc90: 9, Perc99: 10}},
		"100":     {upTo(100), map[string]float64{Perc50: 50, Perc90: 90, Perc99: 99}},
		"101":     {upTo(101), map[string]float64{Perc50: 51, Perc90: 91, Perc99: 100}},
		"all one": {[]float64{3, 3, 3, 3}, map[string]float64{Perc50: 3, Perc90: 3, Perc99: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, percentiles(tc.values)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMedianAndSpread(t *testing.T) {
	type both struct{ Median, Deviation float64 }
	for name, tc := range map[string]struct {
		values []float64
		want   both
	}{
		"none":            {nil, both{0, 0}},
		"one":             {[]float64{4}, both{4, 0}},
		"an even number":  {[]float64{1, 2, 4, 9}, both{3, 1.5}},
		"an odd one":      {[]float64{1000, 10, 11, 9, 12}, both{11, 1}},
		"all in a corner": {[]float64{5, 5, 5, 90}, both{5, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, both{median(tc.values), deviation(tc.values)}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
