// Package vpod turns Pods into modules on bases, and what the bases say back
// into Pod status. It is the provider behind virtual-kubelet's PodController, one
// for all bases of the process.
//
//	modules.go    what a Pod asks for; pure
//	store.go      the Pods that this controller serves
//	informer.go   the Pods as PodController sees them
//	provider.go   PodController's calls
//	lanes.go      one serial lane for each base and module name
//	reconcile.go  what a lane does: install, hand over
//	clear.go      and uninstall what no Pod wants any more
//	rollouts.go   how far the Deployments of the Pods are
//	operate.go    one install or uninstall, its deadline and its retries
//	status.go     what a Pod's status should be; pure
//	writer.go     writes to the API server
//
// A lane looks at what the Pods want and at what the base says it has, does what
// is missing, asks the base again, and only then writes Pod status: nothing is
// believed because a command was answered with success.
package vpod
