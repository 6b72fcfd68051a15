// Package vpod turns Pods into modules on bases, and what the bases say back into Pod status. It is
// the provider behind virtual-kubelet's PodController, one for all bases of the process.
//
//	provider.go    options, and PodController's calls
//	informer.go    the Pods as PodController sees them
//	store.go       the Pods that this controller serves
//	modules.go     what a Pod asks for; pure
//	workers.go     one worker for each base and module name
//	reconcile.go   what a worker does: it makes the newest version active,
//	publish.go     writes the status of the Pods in the order that loses no request,
//	uninstall.go   and uninstalls what no Pod wants any more
//	rollouts.go    how far the Deployments of the Pods are
//	operate.go     one install or uninstall, its deadline and its retries
//	status.go      what a Pod's status should be; pure
//	writer.go      writes to the API server
//	toleration.go  the toleration for this environment that a Pod may lack
//	vklog.go       virtual-kubelet's log in ours
//
// A worker looks at what the Pods want and at what the base says it has, does what is missing, asks
// the base again, and only then writes Pod status: nothing is believed because a command was
// answered with success.
package vpod
