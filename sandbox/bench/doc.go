// Package bench measures service levels of a sandbox in the words of Kubernetes' own scalability
// tests: the measures of clusterloader2, over the runs of scenarios, for fleets of several sizes.
//
//	execute.go  Execute: each size as often as it is to be, and what its runs have shown
//	events.go   Pod startup, scheduling throughput, network programming: from what a run has seen
//	api.go      API responsiveness: from the API server's own histograms
//	metrics.go  what a Prometheus endpoint says
//	sample.go   percentiles, medians, spread
//	result.go   Result: all that was measured; its JSON form is the file of a baseline
//	machine.go  Machine: what it was measured on
//	compare.go  Compare: what is worse than in a baseline, beyond noise
//	text.go     tables for terminals
//	page.go     a page with charts, without a script
//	chart.go    one chart
//
// The names and definitions are those of clusterloader2 (kubernetes/perf-tests,
// clusterloader2/pkg/measurement), and of the service level indicators of SIG Scalability
// (kubernetes/community, sig-scalability/slos). Where a module differs from a container, each measure
// says so.
package bench
