// Package fleet proves bases in Pods of clusters of three nodes, with two controllers in them and a Mosquitto
// with TLS and users: a rolling update; a Pod of bases, a controller and the broker that are killed.
//
// It needs a container engine, Mosquitto and minutes, so it runs with E2E_FLEET=1 only: `make
// e2e-fleet`. E2E_FLEET_BASES says how many bases; the default is 60.
package fleet
