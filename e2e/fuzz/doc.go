// Package fuzz tests the fuzzer with mutation testing: the fuzzer finds the defect of each mutant of the controller,
// and reports no failure of the unmodified controller. The tests take half an hour. Run them with make fuzz-proof.
package fuzz
