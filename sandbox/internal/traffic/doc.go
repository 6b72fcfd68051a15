// Package traffic sends requests to the modules of simulated bases, the way that
// clients in a cluster do, and keeps what became of each.
//
// The bases of a sandbox have addresses that nothing routes. A Gateway picks an
// endpoint of a Service at the moment of a connection, and dials the listener on
// this machine that belongs to the base behind it. Where bases have addresses that a
// cluster routes, package agent has a Generator in the cluster's network, which sends to
// the addresses of Services, or to bases that it is told of.
package traffic
