// Package workload has the rules for module workloads: which Pods, Deployments and containers are
// modules, which versions they ask for, what prevents an installation, and on which bases a template
// can run. It is pure. The packages vpod, peer, baseline and moduleview of the controller use it, and
// so do lint and why of the sandbox.
//
//	workload.go   labels of workloads, and the modules of their containers
//	check.go      what prevents the installation of a container as a module
//	version.go    BIZ_VERSION, as a kubelet evaluates environment variables
//	placement.go  on which bases a template can run
package workload
