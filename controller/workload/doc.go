// Package workload reads module workloads: which Pods and Deployments belong to modules, what the
// containers of a template install, and which bases a template fits. It is pure. vpod, peer,
// baseline and moduleview of the controller use it, and so do lint and why of the sandbox.
//
//	workload.go   what labels and containers say
//	check.go      what keeps a container from being a module
//	configmap.go  a version that stands in a ConfigMap
//	placement.go  which bases a template fits
package workload
