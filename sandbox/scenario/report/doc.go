// Package report writes what scenarios have led to, a scenario.Report, in the forms in which it is
// read.
//
// # JSON
//
// WriteJSON writes scenario.Report: its doc comments say what each field is. Times are RFC 3339,
// durations whole nanoseconds. runs[].verdict is passed, failed, skipped or errored.
// runs[].timeline has every event in the order in which it was seen, runs[].traffic[].lostRequests
// the first 1,000 lost requests of a stream and runs[].traffic[].lost the number of all of them.
// Fields may be added; none is renamed or gets another meaning within v1alpha1.
package report
