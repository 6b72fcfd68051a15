package bench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// metricsOf returns kube-apiserver metrics with requests for Pods, events and health checks.
func metricsOf(t *testing.T, name string) Metrics {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMetrics(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestResponsiveness checks that only requests between the two readings are included, that the two API groups of
// events are merged, and that watches and non-resource requests are excluded.
func TestResponsiveness(t *testing.T) {
	before, after := metricsOf(t, "apiserver-before.txt"), metricsOf(t, "apiserver-after.txt")
	items, ok := responsiveness(before, after)
	if !ok {
		t.Fatal("responsiveness() = false, want true")
	}
	want, err := os.ReadFile(filepath.Join("testdata", "responsiveness.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text(t, items)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if _, ok := responsiveness(after, before); ok {
		t.Error("decreased counters were not detected")
	}
	if items, ok := responsiveness(after, after); !ok || len(items) > 0 {
		t.Errorf("results without requests = %v, want none", items)
	}
}

// TestQuantile compares quantiles with the results of histogram_quantile in Prometheus.
func TestQuantile(t *testing.T) {
	buckets := func(counts ...float64) histogram {
		h := histogram{buckets: map[float64]float64{}}
		for i, bound := range []float64{0.005, 0.025, 0.1, math.Inf(1)} {
			h.buckets[bound], h.count = counts[i], counts[i]
		}
		return h
	}
	for name, tc := range map[string]struct {
		h    histogram
		want [3]float64 // quantiles p50, p90 and p99
	}{
		"all in the first":         {buckets(100, 100, 100, 100), [3]float64{0.0025, 0.0045, 0.00495}},
		"one request":              {buckets(0, 1, 1, 1), [3]float64{0.015, 0.023, 0.0248}},
		"one in each of three":     {buckets(1, 2, 3, 3), [3]float64{0.015, 0.0775, 0.09775}},
		"an empty one in between":  {buckets(50, 50, 100, 100), [3]float64{0.005, 0.085, 0.0985}},
		"some above the last":      {buckets(0, 50, 80, 100), [3]float64{0.025, 0.1, 0.1}},
		"all above the last bound": {buckets(0, 0, 0, 7), [3]float64{0.1, 0.1, 0.1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got [3]float64
			for i, p := range percentileSpecs {
				got[i] = math.Round(tc.h.quantile(p.share/100)*1e9) / 1e9
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}
