// Package shipped tests module-controller processes that run with the environment and the permissions of the shipped
// manifests (controller/deploy), in a cluster that belongs to no sandbox. make e2e runs the tests.
package shipped
