// Package base knows which bases exist, how alive they are, which modules they say they have, and
// who asks them what.
//
//	base.go      one base and what is known of it
//	registry.go  all bases: what messages change
//	accept.go    whose messages count
//	share.go     limits of bases per address, and of new bases over MQTT
//	sweep.go     what time changes: silence, and the questions that are due
//	sight.go     whether silence means anything: is the tunnel up, was the process awake
//	mass.go      too many silent at once, too many given up at once; pure
//	dialog.go    ask a base and wait for its answer
//	pending.go   questions that wait, and what a list tells of them
//
// The package holds state and an injected clock; messages go out through the tunnels that it is
// given, and it knows no Kubernetes.
package base
