// Package lint reads Kubernetes manifests of modules and says what is wrong with them before a
// cluster does, or, worse, does not.
//
//	lint.go        Lint: from texts to findings
//	rules.go       the rules: what each means and what to do
//	object.go      reads objects, with the line of each field
//	pod.go         what a module Pod, or a template of one, must have
//	placement.go   tolerations, affinity and labels of bases
//	live.go        what a cluster says: whether a base takes the Pods, and why what is there is not Ready
//	rollout.go     how a workload replaces its Pods
//	together.go    what several objects do together: Services, one version with two jars
//
// Objects that have nothing to do with modules are left alone, and so is a field whose value is an
// expression of a scenario, ${{ … }}.
package lint
