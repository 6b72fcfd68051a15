// Package errcode is the two-level error codes of Module Controller V2 document 5.6, each with its
// meaning and its suggestion, in Chinese as the document writes them and in English.
//
//	codes.go     Code and the constants, one for each code
//	table.go     the three tables of the document as data
//	lookup.go    Info, Lookup, LookupIn, All
//	error.go     an error that carries a code
//	classify.go  what an answer of a base means, and what the controller calls it
//
// A code is written Source.Type, for example Arklet.InstallModuleFailed: the source says who is at
// fault, the type what went wrong. The spelling is the document's, including ResourceConstraned and
// OverFiftyPercentBaseInstancesUnavaliable.
//
// Everything here is immutable data and pure functions, safe for concurrent use. The package
// imports nothing but the standard library, so that a client may use it without pulling in
// Kubernetes.
package errcode
