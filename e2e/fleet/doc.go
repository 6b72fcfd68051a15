// Package fleet tests bases in Pods of an existing cluster of three nodes, with two controllers in it and a Mosquitto
// with TLS and users in a container: a rolling update, outages of the broker, and Pods that are killed.
//
// It needs a container engine, Mosquitto and minutes, so it runs only with E2E_FLEET=1: make e2e-fleet.
// E2E_FLEET_BASES sets the number of bases; the default is 60.
package fleet
