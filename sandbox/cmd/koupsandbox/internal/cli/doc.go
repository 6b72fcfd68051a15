// Package cli is the command line of koupsandbox.
package cli
