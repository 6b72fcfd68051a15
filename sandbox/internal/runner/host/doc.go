// Package host runs module controllers as processes of this machine.
//
//	host.go        Runner: New, Ensure, End; which processes there are, and their ports
//	program.go     Program: what is run, as a supervised process
//	controller.go  the sandbox's own module-controller
//	command.go     a command of the user's
//	ready.go       whether an HTTP address answers; free ports
package host
