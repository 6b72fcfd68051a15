// Package fuzz tests that the fuzzer finds defects: each mutation of the controller, and those of a naive
// controller. It also tests that the fuzzer finds none in the controller itself. The tests take half an
// hour, so only make fuzz-proof runs them.
package fuzz
