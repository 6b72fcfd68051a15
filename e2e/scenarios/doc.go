// Package scenarios runs the catalogue: every file of the folder scenarios is a
// subtest, judged by the same runner as koupsandbox scenario run. It also holds that
// command, and those around it, to what they promise.
//
//	main_test.go       a sandbox for all, and more for scenarios that disturb others; E2E_PROVIDER=embedded|kind says
//	                   where, E2E_BROKER=mosquitto on which broker, E2E_SPEED=1..20 how fast they live
//	catalogue_test.go  the files: side by side, but those that disturb others, each with a sandbox for itself
//	rights_test.go     what the controllers asked for in all these sandboxes, by an audit log, is what the manifests allow
//	long_test.go       outages of minutes, in a sandbox that lives ten times as fast
//	mosquitto_test.go  what up says about a broker of the user's that it cannot use
//	mutation_test.go   a controller that is broken on purpose turns scenarios red
//
// From the command line, with the scenarios in testdata:
//
//	cli_test.go       starts scenario run, and reads its report
//	report_test.go    what a run that fails says, in all forms
//	mistakes_test.go  what cannot be run, and what the API refuses
//	stop_test.go      Ctrl-C, kill -9, --keep, a timeout
//	flags_test.go     --repeat, --parallel, --seed, --selector, --from-step, --dry-run
//	tools_test.go     demo, watch
//
// A failure leaves the report as a page and as JSON, and the sandbox's logs, in the
// folder e2e/artifacts.
package scenarios
