// Package container runs simulated bases in containers of a container engine, each
// with an address of its own in the network of a kind cluster.
//
//	container.go  Engine: Run, Sweep; one container
//	image.go      the image of the fakebase program
//
// A container lives as long as the process that started it: its base is told and
// asked over its standard streams, and ends with them.
package container
