// Package load holds the test of the module controller under load: many Pods that are slow to install,
// an API server with priority and fairness that grants little at once, and one request in twenty that
// is refused, lost or never answered. The controller and its bases run in the test's process, which
// counts requests, goroutines and memory; the API server is that of a sandbox. make e2e runs it.
//
//	main_test.go         a sandbox whose API server has priority and fairness on
//	disturbance_test.go  what happens to requests on their way, and how many are under way
//	load_test.go         every Pod ends as it should, and afterwards all is as it was
package load
