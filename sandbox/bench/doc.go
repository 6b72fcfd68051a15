// Package bench measures scenario runs: Pod startup, scheduling throughput, network programming and API
// responsiveness. The results have the Go benchmark format (https://go.dev/design/14313-benchmark-format),
// which benchstat reads.
//
//	execute.go  Execute and Observe: run scenarios, or watch a sandbox, and measure
//	events.go   Pod startup, scheduling throughput and network programming, from timeline events
//	api.go      API responsiveness, from the histograms of the API server
//	metrics.go  Metrics: what a Prometheus endpoint exposes
//	results.go  Results: benchmark results by name and unit
//	compare.go  Compare: differences from a baseline
//
// Names and definitions follow clusterloader2 (kubernetes/perf-tests, clusterloader2/pkg/measurement) and the
// service level indicators of SIG Scalability (kubernetes/community, sig-scalability/slos).
package bench
