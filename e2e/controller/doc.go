// Package controller tests the module controller as a process, with a real API server and the Kubernetes controllers of
// a sandbox. The simulated bases run in the process of the test, which observes every change in them. The package
// covers behaviour that the scenarios of the catalogue do not cover.
package controller
