// Package host runs module controllers as processes on this machine.
package host
