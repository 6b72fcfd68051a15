// Package cli is the command line of koupsandbox.
//
//	cli.go         Run: the application, its common flags, errors and exit codes
//	words.go       flags behind arguments, and what a misspelt word may have been
//	init.go        init
//	up.go          up and down
//	fleet.go       fleet up and down
//	status.go      status and list
//	bases.go       base list, add, remove, restart, kill
//	components.go  component kill, pause, resume, restart, stop, start
//	faults.go        fault: set, list, clear
//	logs.go        logs
//	annotate.go    annotations of files, as GitHub Actions reads them
//	scenario.go    scenario list, new, schema
//	scenario_run.go, scenario_lint.go, scenario_explain.go   scenario run, lint, explain
//	bench.go       bench
//	fuzz.go        fuzz
//	fuzz_compare.go   fuzz --compare
//	watch.go       watch
//	board.go       board
//	why.go         why
//	demo.go        demo
//	images.go      images save and load
//	tools.go       kubeconfig, doctor, completion
//	version.go     version, and the hidden command that prints the page of the manual
//	daemon.go      the hidden command behind up
//	agent.go       the hidden command that sends requests from within a cluster
//	output.go      text, JSON and YAML
package cli
