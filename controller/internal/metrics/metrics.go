// Package metrics defines the Prometheus metrics of the controller.
package metrics

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the Prometheus metrics of one controller. The methods are safe for concurrent use.
type Metrics struct {
	registry     *prometheus.Registry
	requests     *prometheus.CounterVec
	rejected     *prometheus.CounterVec
	operations   *prometheus.HistogramVec
	missed       prometheus.Counter
	unobservable *prometheus.CounterVec
}

// New returns Metrics with a new Prometheus registry.
func New() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	add := promauto.With(registry)
	return &Metrics{
		registry: registry,
		requests: add.NewCounterVec(prometheus.CounterOpts{
			Name: "module_controller_api_requests_total",
			Help: "Requests to the Kubernetes API, by method and resource.",
		}, []string{"method", "resource"}),
		rejected: add.NewCounterVec(prometheus.CounterOpts{
			Name: "module_controller_rejected_messages_total",
			Help: "Rejected messages of bases, by tunnel, kind and reason.",
		}, []string{"tunnel", "kind", "reason"}),
		operations: add.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "module_controller_operation_seconds",
			Help:    "Time from a command to the answer of the base, by command and error code (empty for success).",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}, []string{"command", "code"}),
		missed: add.NewCounter(prometheus.CounterOpts{
			Name: "module_controller_missed_heartbeats_total",
			Help: "Heartbeats that bases have missed.",
		}),
		unobservable: add.NewCounterVec(prometheus.CounterOpts{
			Name: "module_controller_blindness_total",
			Help: "Periods in which missed heartbeats were ignored, by tunnel (empty for all tunnels) and reason.",
		}, []string{"tunnel", "reason"}),
	}
}

// Gauge adds a metric whose value is computed at each scrape.
func (m *Metrics) Gauge(name, help string, labels prometheus.Labels, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
		value))
}

// Counter adds a counter.
func (m *Metrics) Counter(name, help string) prometheus.Counter {
	return promauto.With(m.registry).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// AddRejected counts a rejected message. All unknown message kinds share the label "other", because any client can
// send any kind.
func (m *Metrics) AddRejected(tunnel, kind, reason string) {
	if !kinds[kind] {
		kind = "other"
	}
	m.rejected.WithLabelValues(tunnel, kind, reason).Inc()
}

var kinds = map[string]bool{
	"heart": true, "heartbeat": true, "queryBaseline": true, "health": true, "simpleBiz": true, "biz": true,
	"bizOperation": true, "batchInstallBizResponse": true, "installBiz": true, "uninstallBiz": true, "switchBiz": true,
	"queryAllBiz": true,
	"connection":  true, // closed because a limit was exceeded
}

// ObserveOperation records how long a base took to answer an operation.
func (m *Metrics) ObserveOperation(command, code string, took time.Duration) {
	m.operations.WithLabelValues(command, code).Observe(took.Seconds())
}

// AddMissedHeartbeats counts n missed heartbeats.
func (m *Metrics) AddMissedHeartbeats(n int) { m.missed.Add(float64(n)) }

// AddUnobservable counts a period in which missed heartbeats are ignored.
func (m *Metrics) AddUnobservable(tunnel, reason string) {
	m.unobservable.WithLabelValues(tunnel, reason).Inc()
}

// Handler returns the handler of the path /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// CountRequests wraps the transport of a Kubernetes client and counts its requests.
func (m *Metrics) CountRequests(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		m.requests.WithLabelValues(r.Method, Resource(r.URL.Path)).Inc()
		return next.RoundTrip(r)
	})
}

// Resource returns the resource and the subresource of a Kubernetes API path. For example, it returns pods/status for
// /api/v1/namespaces/<ns>/pods/<name>/status.
func Resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other"
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
