// Package kubectl types the commands of docs/en/reference/kubectl.md into a sandbox: each does what
// the page says, and what is refused says the page's sentence.
//
//	main_test.go    the sandbox of all commands
//	habits_test.go  the rows of the page, one after the other
//	plugin_test.go  koupsandbox as a plugin of kubectl
package kubectl
