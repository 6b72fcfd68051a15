// Package traffic sends requests to the modules of simulated bases, the way that
// clients in a cluster do, and keeps what became of each.
//
//	target.go    Target, Targets: the bases, by address and by run
//	route.go     which endpoints of a Service may be picked: kube-proxy's rules; pure
//	choice.go    Choice, Picks: what a stream picks from that follows nothing itself
//	gateway.go   Gateway: follows Services and EndpointSlices; Pick and Dial
//	follow.go    how they are followed while the API server comes and goes
//	proxy.go     the Gateway as an HTTP proxy
//	service.go   the other way: to the address of a Service, behind which kube-proxy picks
//	reject_*.go  a connection that kube-proxy rejects, told from one that a base refuses
//	spec.go      Spec: what a stream of requests is
//	generator.go Generator: the streams of all runs
//	stream.go    one stream: an open loop at a fixed rate
//	request.go   one request, and what its outcome is called
//	ledger.go    every request of a stream, in 40 bytes each
//	record.go    Record, Summary, Second, End: what others see of it
//
// The bases of a sandbox have addresses that nothing routes. A Gateway picks an
// endpoint of a Service at the moment of a connection, and dials the listener on
// this machine that belongs to the base behind it. Where bases have addresses that a
// cluster routes, package agent has a Generator in the cluster's network, which sends to
// the addresses of Services, or to bases that it is told of.
package traffic
