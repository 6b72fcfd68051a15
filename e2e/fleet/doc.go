// Package fleet proves bases in Pods of a cluster: a kind cluster of three nodes, two controllers in it, a
// Mosquitto with TLS and users, a rolling update, a Pod of bases that is killed, a controller that is killed.
//
//	fleet_test.go  all of it
//
// It needs a container engine, Mosquitto and minutes, so it runs with E2E_FLEET=1 only: `make
// e2e-fleet`. E2E_FLEET_BASES says how many bases; the default is 60.
package fleet
