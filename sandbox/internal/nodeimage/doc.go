// Package nodeimage builds an image of a kind node from Debian packages and Go modules alone, for
// machines that reach no registry of container images. kind makes clusters of it as of its own
// images.
//
//	files/        what is ours in a node
//	containerd/   the Go module that pins containerd
//	coredns/      CoreDNS with the plugins that a cluster needs
//	pause/        the program that holds a Pod's namespaces
//	cmd/          the command behind `make node-image`
//
// Nothing is run in a container, and no container engine is needed before the finished image is
// loaded. The parts are kept in a directory: what has not changed is not made again. Only the
// architecture of this machine is built.
package nodeimage
