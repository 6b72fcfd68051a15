// Package host runs module controllers as processes of this machine.
package host
