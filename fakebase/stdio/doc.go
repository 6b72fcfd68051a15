// Package stdio carries HTTP/2 over the standard streams of a process. A process that starts a program in a Pod or a
// node of the cluster can call it without a port, an address or a password. When either side ends,
// the other side sees the end of its stream.
//
// The program uses its standard output only for this, and its standard error for logs.
package stdio
