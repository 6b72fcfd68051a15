// Package lint checks Kubernetes manifests of modules before they are applied to a cluster, and reports
// what it could not check.
//
// Lint skips a field whose value is an expression of a scenario, ${{ … }}.
package lint
