// Package controller is the module controller: it shows each base of Koupleless to Kubernetes as a
// Node and each module as a container of a Pod, as Module Controller V2 does.
//
//	controller.go  New, Start, Ready
//	options.go     what can be set, with the documents' environment variables
//	reach.go       whether the API answers, and whether endpoints may be out of date
//	guard.go       no command and no write while another controller may serve the bases; no old lists
//	wiring.go      what every installation has: tunnels, Pods, Nodes
//	parts.go       what it may have: logs and exec, reports, peer Deployments, baselines, Modules
//	bases.go       what bases say, and what it sets off
//	newcomers.go   bases that asked what to install, and have not come yet
//	serve.go       metrics, /healthz, /readyz, /tunnelz
//
// The packages below internal do the work; see ARCHITECTURE.md for how they depend on each other.
package controller
