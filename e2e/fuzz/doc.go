// Package fuzz proves that the fuzzer finds what is broken: our controller with one mutation after
// the other, and a naive one; and that it finds nothing in the controller as it is. It takes half an
// hour, so it runs with make fuzz-proof only.
//
//	proof_test.go  a run of the fuzzer for each, and what it printed
package fuzz
