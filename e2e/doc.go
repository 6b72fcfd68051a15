// Package e2e holds the tests that drive a sandbox as its user does: by the
// built programs, the Kubernetes API, and what the bases say of themselves. Run
// them with make e2e.
//
//	internal/box/      a sandbox, driven through its command line
//	internal/module/   the objects that put modules on bases
//	bench/             benchmarks of a whole sandbox: make bench
package e2e
