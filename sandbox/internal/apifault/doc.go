// Package apifault is the target of faults on the connections of module controllers on this machine to the
// Kubernetes API: a proxy that delays, refuses or loses what passes. Most kinds do only what the API may do to any
// client.
package apifault
