// Package nodeimage builds a kind node image from Debian packages and Go modules only, for machines without
// access to a container registry. kind uses it like its own images.
//
//	files/        files of this package in a node
//	containerd/   the Go module that pins containerd
//	coredns/      CoreDNS with the plugins that a cluster needs
//	pause/        the binary that holds the namespaces of a Pod
//	cmd/          the command for `make node-image`
//
// The build needs no container and no container engine. Its parts are cached, and only changed parts are built
// again. It builds only for the architecture of this machine.
package nodeimage
