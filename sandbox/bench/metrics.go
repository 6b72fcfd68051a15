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

// Metrics holds the metric families of a Prometheus endpoint, by name.
type Metrics map[string]*dto.MetricFamily

// ParseMetrics parses the Prometheus text format.
func ParseMetrics(r io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("parsing the metrics: %w", err)
	}
	return families, nil
}

// APIMetrics reads the metrics of an API server. Behind a load balancer, it reads the metrics of only one API server.
func APIMetrics(ctx context.Context, api rest.Interface) (Metrics, error) {
	text, err := api.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return ParseMetrics(bytes.NewReader(text))
}

// Sum returns the sum of the counters and gauges of a metric family, restricted to metrics whose labels keep accepts.
// If keep is nil, Sum includes all metrics. The sum of a missing family is 0, because a counter does not exist before
// it is first incremented.
func (m Metrics) Sum(name string, keep func(labels map[string]string) bool) float64 {
	total := 0.0
	for _, metric := range m[name].GetMetric() {
		if keep == nil || keep(LabelsOf(metric)) {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return total
}

// LabelsOf returns the labels of a metric as a map.
func LabelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range metric.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}
