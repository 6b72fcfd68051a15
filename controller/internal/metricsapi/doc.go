// Package metricsapi serves metrics.k8s.io for the Nodes of bases, so that kubectl top node shows
// their metaspace.
//
// It answers from Nodes alone, which bear the metaspace in use as an annotation. So each controller
// answers for the bases of all, and a Service may lead to any of them.
//
//	server.go   options, start and stop
//	callers.go  who may call: the API server, by the certificate of its aggregator
//	nodes.go    what is answered
package metricsapi
