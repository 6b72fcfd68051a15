package bench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// metricsOf reads what a kube-apiserver 1.36 said, of Pods, events and its own health.
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

// Only what came between the two looks counts; the two groups of events are one; watches and what is no
// resource are left out.
func TestResponsivenessOfARealServer(t *testing.T) {
	before, after := metricsOf(t, "apiserver-before.txt"), metricsOf(t, "apiserver-after.txt")
	items, ok := responsiveness(before, after)
	if !ok {
		t.Fatal("the counters went back")
	}
	want, err := os.ReadFile(filepath.Join("testdata", "responsiveness.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text(t, items)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := responsiveness(after, before); ok {
		t.Error("decreased counters were not detected")
	}
	if items, ok := responsiveness(after, after); !ok || len(items) > 0 {
		t.Errorf("without a request between there are %v", items)
	}
}

// As Prometheus' histogram_quantile has it.
func TestQuantileOfAHistogram(t *testing.T) {
	buckets := func(counts ...float64) histogram {
		h := histogram{buckets: map[float64]float64{}}
		for i, bound := range []float64{0.005, 0.025, 0.1, math.Inf(1)} {
			h.buckets[bound], h.count = counts[i], counts[i]
		}
		return h
	}
	for name, tc := range map[string]struct {
		h    histogram
		want [3]float64 // p50, p90, p99
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
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
