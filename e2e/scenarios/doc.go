// Package scenarios runs the scenarios of the catalogue, each as a subtest. It also tests koupsandbox scenario run,
// demo and watch from the command line, with the scenarios in testdata.
//
// After a failure, the report as text, HTML and JSON, and the logs of the sandbox are in the directory e2e/artifacts.
package scenarios
