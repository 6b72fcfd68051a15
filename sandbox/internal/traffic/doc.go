// Package traffic sends requests to the modules of simulated bases as clients in a cluster do, and records the
// result of each request.
//
// The addresses of simulated bases are not routable. A Gateway picks an endpoint of a Service for each
// connection and dials the local listener of the base behind it. If the addresses of bases are routable in a
// cluster, package agent runs a Generator in the cluster network. It sends requests to the addresses of
// Services, or to bases in a list that it receives.
package traffic
