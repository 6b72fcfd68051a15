// Package fault describes what can go wrong with a base, and checks it. A Fault is
// what configuration files, scenarios and control interfaces carry as JSON.
//
//	f := fault.Fault{Kind: fault.KindError, Code: fault.CodeDiskFull, Count: 2}
//	err := f.Validate()
//
// The package imports no other package of this module.
package fault
