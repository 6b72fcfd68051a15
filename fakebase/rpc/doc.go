// Package rpc implements calls between the processes of this module: JSON over HTTP, on any connection.
//
// A call is POST /NAME with the input as the body. The response to a Unary call is the output, or an Error with a
// status of at least 400. The response to a Stream call has lines with {"item": ..}, and may end with a line {"error":
// ..}. curl can send each call:
//
//	curl --unix-socket SOCKET -d '{"bases": true}' http://sandbox/Status
//
// The package imports no other package of this module. connect-go would add 6.5 MB to each binary, including the images
// of bases, and curl cannot read its streams.
package rpc
