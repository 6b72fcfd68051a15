// Package scenarios runs the catalogue: every file of the folder scenarios is a
// subtest, judged by the same runner as koupsandbox scenario run.
//
//	main_test.go       one sandbox for all; E2E_PROVIDER=embedded|kind says where
//	catalogue_test.go  the files, those that need the sandbox for themselves one after the other
//	mutation_test.go   a controller that is broken on purpose turns scenarios red
//
// A failure leaves the report as a page and as JSON, and the sandbox's logs, in the
// folder e2e/artifacts.
package scenarios
