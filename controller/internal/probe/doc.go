// Package probe asks modules whether they are well, as a kubelet asks containers: readiness and
// liveness probes of type httpGet, sent to the web port of the base.
//
//	probe.go   Options, Target, Result, Prober: New, Start, Set, Forget, Ready
//	worker.go  one probe of one container: when it is due, and what its answers mean
//	limits.go  limits of concurrent requests
//	http.go    where a request goes, and what an answer means
//
// The rules are the kubelet's (pkg/kubelet/prober in Kubernetes 1.36), with its defaults. A module
// that was not probed yet is Not Ready, unless it was Ready before this controller began. One that
// failed its liveness probe is not probed again until it was started anew.
//
// The number of concurrent requests is limited for each base and in total. A request is canceled after MaxTimeout, and when Forget is called for its Pod.
package probe
