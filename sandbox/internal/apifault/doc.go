// Package apifault injects faults into the requests of module controllers to the Kubernetes API. Controllers on this
// machine connect to a proxy, which delays, rejects or drops requests and responses. Most kinds of faults can also occur
// with a real API server.
package apifault
