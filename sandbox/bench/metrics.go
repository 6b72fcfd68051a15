package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// Metrics are the families that a Prometheus endpoint shows, by name.
type Metrics map[string]*dto.MetricFamily

// ParseMetrics reads the text format.
func ParseMetrics(r io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// APIMetrics asks an API server for its metrics. Of several behind one address one answers.
func APIMetrics(ctx context.Context, api rest.Interface) (Metrics, error) {
	text, err := api.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its metrics: %w", err)
	}
	return ParseMetrics(bytes.NewReader(text))
}

// Sum adds the counters or gauges of a family for whose labels keep returns true;
// a nil keep takes all. A family that is not there counts 0: a counter shows up with its
// first event.
func (m Metrics) Sum(name string, keep func(labels map[string]string) bool) float64 {
	total := 0.0
	for _, metric := range m[name].GetMetric() {
		if keep == nil || keep(LabelsOf(metric)) {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return total
}

// LabelsOf are the labels of a metric by name.
func LabelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range metric.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}
