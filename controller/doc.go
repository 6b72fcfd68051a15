// Package controller is the module controller: it shows each base of Koupleless
// to Kubernetes as a Node and each module as a container of a Pod, as Module
// Controller V2 does.
//
//	controller.go  front door: New, Start; wiring only
//	options.go     what can be set, with the documents' environment variables
//	bases.go       what bases say, and what it sets off
//	rooms.go       reports, peer Deployments, baselines, the view of modules
//	serve.go       metrics, /healthz, /readyz
//
// The rooms below internal do the work; see ARCHITECTURE.md for the arrows.
package controller
