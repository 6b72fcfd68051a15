// Package report writes what scenarios have led to, a scenario.Report, in the forms in which it is
// read.
//
//	text.go      for a terminal: a line for a run that has passed, evidence for one that has not
//	evidence.go  that evidence: steps, details, checks, lost requests
//	style.go     colours, and what keeps a text from commanding the terminal
//	json.go      the Report itself
//	junit.go     JUnit XML, one testcase a run
//	markdown.go  a summary in Markdown, for the page of a CI job
//	github.go    annotations of files, as GitHub Actions reads them
//	html.go      one HTML file with a timeline, which needs no network
//	lanes.go     the lanes of the timeline
//	view.go      what its script gets to draw; go generate ./sandbox/board makes that from web/src/report there
//	strings.go   that each text is written once
//	file.go      Save: a file is whole or not there
//
// # JSON
//
// WriteJSON writes scenario.Report: its doc comments say what each field is. Times are RFC 3339,
// durations whole nanoseconds. runs[].verdict is passed, failed, skipped or errored.
// runs[].timeline has every event in the order in which it was seen, runs[].traffic[].lostRequests
// the first 1,000 lost requests of a stream and runs[].traffic[].lost the number of all of them.
// Fields may be added; none is renamed or gets another meaning within v1alpha1.
package report
