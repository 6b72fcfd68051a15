// Package lint checks Kubernetes manifests of modules before they are applied to a cluster, and reports
// what it could not check.
//
//	lint.go        Lint: from inputs to a Report
//	rules.go       the rules: their meaning and their fixes
//	kind.go        built-in kinds, misspelt kinds and custom resources
//	object.go      reads objects, with the line of each field
//	literal.go     placeholders, and values without the quotes that they need
//	pod.go         labels and containers of a module Pod or template, by the rules of the controller
//	value.go       label values, claims, credentials in URLs
//	placement.go   tolerations, affinity and labels of bases
//	live.go        comparison with a cluster: whether a base fits, and why an existing object is not Ready
//	rollout.go     how a workload replaces its Pods
//	together.go    checks across objects: Services, one version with two jars
//	ordinary.go    workloads without modules that would create Pods on bases
//
// Lint skips a field whose value is an expression of a scenario, ${{ … }}.
package lint
