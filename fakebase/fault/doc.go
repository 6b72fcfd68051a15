// Package fault says what can go wrong with a base, and checks it. A Fault is
// what configuration files, scenarios and control interfaces carry as JSON.
//
//	f := fault.Fault{Kind: fault.KindError, Code: fault.CodeDiskFull, Count: 2}
//	err := f.Validate()
//
// # Map
//
// The package imports nothing of this module: whoever describes a fault need not
// have a base.
package fault
