// Package rights holds a sandbox to what SECURITY.md says: who may do what, who reaches what, and what
// is on its disk.
//
//	main_test.go       one sandbox with all that is optional, its API server with default flags and an audit log
//	rules_test.go      the rules of the controller are what it asks for, both ways
//	kubelet_test.go    whom the API server dials for logs and exec
//	listeners_test.go  the listening sockets of its processes are those of the table
//	files_test.go      its files are its user's alone, with an existing cluster too
//	scripts_test.go    what a script step may do, and who reads what it is given
package rights
