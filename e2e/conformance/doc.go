// Command conformance tells what a module controller does of what the documents, the protocol and
// the original controller let its users expect. It brings a sandbox up with the controller,
// connects bases of its own, and checks each expectation: a function with a name, a source and a
// level.
//
//	go run ./e2e/conformance                                     # this repository's controller
//	go run ./e2e/conformance --controller ./mine --env 'KUBECONFIG={{.Kubeconfig}}' ARG...
//	go run ./e2e/conformance --config my-sandbox.yaml -o markdown
//
// The bases are a reading of the protocol apart from fakebase and from the controller: neither is
// imported here.
//
//	main.go         flags
//	lab.go          the sandbox that all expectations share, and what its API was seen to say
//	run.go          runs expectations: at once, then in phases that disturb everybody
//	phase.go        what the expectations of a phase wait for together
//	report.go       what came out, as a table, JSON or Markdown
//	expectation.go  what an expectation is; the list of all
//	known.go        known differences, with their reasons
//	known.yaml      those of this repository's controller
//	world.go        what one expectation has: a namespace, bases, waits
//	objects.go      Pods and workloads, as the documents write them
//	pods.go         Pods, looked at
//	base.go         a base: its modules, and what it does with commands
//	wire.go         the messages of the protocol, written by hand
//	mqtt.go         a base over MQTT
//	http.go         a base over HTTP
//	expect_*.go     the expectations
package main
