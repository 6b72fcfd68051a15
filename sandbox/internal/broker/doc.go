// Package broker is the MQTT broker of a sandbox: mochi-mqtt on the loopback
// address, with one password for the module controller and one for the bases; or
// a relay to a broker that the user has.
//
// Bases that live in the process of the broker connect through memory: the same
// MQTT packets, but no socket, so that 10,000 of them need no open files.
package broker
