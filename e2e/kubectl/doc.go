// Package kubectl types the commands of docs/en/reference/kubectl.md into a sandbox: each does what
// the page says, and what is refused says the page's sentence.
package kubectl
