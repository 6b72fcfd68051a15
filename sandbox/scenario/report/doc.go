// Package report writes a scenario.Report as text, HTML, JUnit XML, Markdown, JSON and GitHub annotations.
//
// # JSON
//
// WriteJSON writes scenario.Report, whose doc comments describe the fields. Times are RFC 3339, durations are integers
// in nanoseconds. runs[].verdict is passed, failed, skipped or errored. runs[].timeline has all events in the order in
// which they were observed. runs[].traffic[].lostRequests has the first 1,000 lost requests of a stream, and
// runs[].traffic[].lost the number of all lost requests. Fields may be added. Within v1alpha1, no field is renamed or
// changes its meaning.
package report
