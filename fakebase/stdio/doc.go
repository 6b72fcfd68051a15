// Package stdio carries HTTP/2 over the standard streams of a process: whoever
// starts a program, in a Pod or a node of the cluster, can then ask it
// for things without a port, an address or a password, and when either side ends
// the other sees the end of its stream.
//
// The program keeps its standard output for this alone; what it has to say goes
// to its standard error.
package stdio
