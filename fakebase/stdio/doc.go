// Package stdio implements HTTP/2 over the standard input and output of a process. A client can start a process in a Pod or
// on a node of the cluster, and call it without a port, an address or a password. When either side exits, the stream of the
// other side ends.
//
// The process must use its standard output only for this, and its standard error for logs.
package stdio
