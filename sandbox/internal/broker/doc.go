// Package broker is the MQTT broker of a sandbox: mochi-mqtt on the loopback
// address, with one password for the module controller and one for the bases; or
// a relay to a broker that the user has.
//
//	link.go       Link: either of the two as one component that scenarios stop and start
//	broker.go     Broker: New, Start(ctx), Dial, Stats
//	access.go     who may connect, publish and subscribe
//	seldom.go     what is logged of a client that is behind
//	takeover.go   a connection with the client id of an earlier one
//	listener.go   the listeners behind mochi: TCP, and memory for bases of the same process
//	memory.go     lets bases in memory in, and serves thousands of them on small stacks
//	accept.go     accepting connections, whatever becomes of one
//	pipe.go       a connection in memory
//	external.go   External: the user's broker, its certificates, what its errors mean
//	check.go      tries the user's broker before anything of the sandbox speaks there
//	relay.go      Relay: the way there, which can be cut and stalled
//
// Bases that live in the process of the broker connect through memory: the same
// MQTT packets, but no socket, so that 10,000 of them need no open files.
package broker
