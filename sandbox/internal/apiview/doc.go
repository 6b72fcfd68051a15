// Package apiview stands between module controllers of this machine and the Kubernetes API server, and
// disturbs what they see of it by rules: what comes late, is refused, or gets lost. It does only what
// the API may do to any client.
//
//	proxy.go      Proxy: New, Start(ctx); the kubeconfig of a controller that is led through it
//	door.go       where one controller comes in: its port, certificate and token
//	rules.go      the rules that there are: Set, Clear, List; which strikes a request
//	rule.go       one rule, and how often it has fired
//	transport.go  a request on its way to the API server, under the rules
//	request.go    what a request is about: verb, resource, name
//	stream.go     a watch, event by event
//	lists.go      lists that are kept, to be shown again later
//	answer.go     what the proxy answers in place of the API server
//
// A rule ends by itself: after its time, or when it has struck as often as it may.
package apiview
