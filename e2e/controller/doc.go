// Package controller holds the tests of the module controller's behaviour on a
// running sandbox: its own process, the real API server and the real
// Kubernetes controllers. The bases are simulated in the test's process, so that a test
// sees every change in them. What scenarios of the catalogue show is not repeated here.
package controller
