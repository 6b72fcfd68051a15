// Package port opens ports that components keep while they are down.
package port
