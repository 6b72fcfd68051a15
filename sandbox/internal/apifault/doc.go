// Package apifault is the target of faults on the connections of module controllers on this machine to the
// Kubernetes API: a proxy that delays, refuses or loses what passes. Most kinds do only what the API may do to any
// client.
//
//	proxy.go      Proxy: New, Start(ctx), Inject; the kubeconfig of a controller that is led through it
//	door.go       where one controller comes in: its port, certificate and token
//	rules.go      what the faults do to watches and lists; the writes of controllers
//	transport.go  a request on its way to the API server, under the faults
//	request.go    what a request is about: verb, resource, name
//	stream.go     a watch, event by event
//	lists.go      lists that are kept, to be shown again later
//	answer.go     what the proxy answers in place of the API server
package apifault
