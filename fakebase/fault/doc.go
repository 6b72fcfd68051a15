// Package fault says what can go wrong with a base, and checks it. A Fault is
// what configuration files, scenarios and control interfaces carry as JSON.
//
//	f := fault.Fault{Kind: fault.KindError, Code: fault.CodeDiskFull, Count: 2}
//	err := f.Validate()
//
// # Map
//
//	fault.go     Fault, its kinds, what each kind reads, Validate; Status
//	set.go       Set: the faults of one target, with counts, probabilities and times
//	code.go      the error codes
//	duration.go  Duration and Delay, spelled as in "1.5s"
//
// The package imports nothing of this module: whoever describes a fault need not
// have a base.
package fault
