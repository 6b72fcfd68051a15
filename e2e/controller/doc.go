// Package controller holds the tests of the module controller's behaviour on a
// running sandbox: its own process, the real API server and the real
// Kubernetes controllers. The bases are simulated in the test's process, so that a test
// sees every change in them. What scenarios of the catalogue show is not repeated here.
//
//	main_test.go      the sandbox that all tests share, and the controller's settings
//	world_test.go     bases, Pods, and what tests wait for
//	film_test.go      every change of the Pods of a namespace, in order
//	process_test.go   controllers that a test starts, stops and kills
//	tunnels_test.go   MQTT and HTTP, and the generations of the runtime
//	shard_test.go     several controllers
//	blind_test.go     a controller that cannot observe its bases leaves them as they are
//	existing_test.go  taking over from the existing module controller
//	view_test.go      Modules, report hooks, logs and exec
//	settings_test.go  bad settings, and the samples
package controller
