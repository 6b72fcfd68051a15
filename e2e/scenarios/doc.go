// Package scenarios runs the catalogue: every file of the directory scenarios is a
// subtest, judged by the same runner as koupsandbox scenario run. It also holds that
// command, and those around it, to what they promise.
//
// From the command line, with the scenarios in testdata:
//
// A failure leaves the report as a page and as JSON, and the sandbox's logs, in the
// directory e2e/artifacts.
package scenarios
