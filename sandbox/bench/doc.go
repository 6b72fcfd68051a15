// Package bench measures scenario runs: Pod startup, scheduling throughput, network programming and API
// responsiveness. The results have the Go benchmark format (https://go.dev/design/14313-benchmark-format),
// which benchstat reads.
//
// Names and definitions follow clusterloader2 (kubernetes/perf-tests, clusterloader2/pkg/measurement) and the
// service level indicators of SIG Scalability (kubernetes/community, sig-scalability/slos).
package bench
