// Package existing lets a sandbox run on a cluster that exists already: a kubeconfig context that
// the user names. It never takes the current context for granted, reads before it writes, writes
// nothing without consent, and removes only what it made: the mark, the controller's rights, and
// the Nodes of its bases.
package existing
