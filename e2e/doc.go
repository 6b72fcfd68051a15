// Package e2e holds the tests that drive a sandbox as its user does: by the
// built programs, the Kubernetes API, and what the bases say of themselves. Run
// them with make e2e.
//
//	main_test.go       the sandbox that most tests share
//	steps_test.go      what tests wait for and ask
//	dump_test.go       what is kept of a failure, in artifacts/
//	hostile_test.go    MQTT messages that no base sends
//	crash_test.go      parts of a sandbox are killed, each in a sandbox of its own
//	cli_test.go        the command line is misused
//	bench_test.go      service levels are measured, and compared with a baseline
//	internal/box/      a sandbox, driven through its command line
//	internal/module/   the objects that put modules on bases
//	bench/             make bench: how fast and how large everything is
package e2e
