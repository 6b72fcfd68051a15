// Package port opens ports that components keep while they are down.
//
//	port.go  Listen: on a port that the system gives to nobody else
package port
