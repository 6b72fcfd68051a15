// Package existing runs a sandbox on an existing cluster, selected by a kubeconfig context. The context must be named
// explicitly; the current context is not used. The package writes nothing without the user's consent. It removes only
// objects that the sandbox has created: the ownership marker, the permissions of the controllers, and the Nodes of
// bases.
package existing
