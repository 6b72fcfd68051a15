// Package apiwait has watches of the Kubernetes API wait for an API server that is away. A reflector
// of client-go alone pauses up to a minute between two attempts (30 s, and as much again by
// chance), so that whoever relies on it would not see for as long what happens after
// an outage.
//
//	apiwait.go  Watches
package apiwait
