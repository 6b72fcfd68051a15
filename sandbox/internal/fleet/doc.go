// Package fleet runs the simulated bases of a sandbox, in this process or in Pods of a cluster (package
// pods): the sandbox's own bases, and groups of others that come and go.
//
//	fleet.go     Fleet: Start(ctx), Add, WaitConnected, Restart, Remove
//	lookup.go    Count, List, Find, ByIP
//	member.go    one base, and whether it is connected
//	runtime.go   Runtime: what bases run in
//	process.go   this process
//	set.go       what bases to add, as settings of fakebase
//	beat.go      heartbeats over HTTP
//	watch.go     Watch: everything that happens to bases
//	address.go   which number and address a base gets
package fleet
