// Package broker is the MQTT broker of a sandbox: mochi-mqtt on the loopback
// address, with one password for the module controller and one for the bases.
//
//	broker.go     Broker: New, Start(ctx), Dial, Stats
//	access.go     who may connect, publish and subscribe
//	listener.go   the listeners behind mochi: TCP, and memory for bases of the same process
//	pipe.go       a connection in memory
//	valve.go      Pause and Resume
//
// Bases that live in the process of the broker connect through memory: the same
// MQTT packets, but no socket, so that 10,000 of them need no open files.
package broker
