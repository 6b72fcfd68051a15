// Package fault has the faults of a base. A Fault has a JSON form for configuration files, scenarios and control APIs.
//
//	f := fault.Fault{Kind: fault.KindError, Code: fault.CodeDiskFull, Count: 2}
//	err := f.Validate()
//
// The package imports no other package of this module.
package fault
