// Package vpod turns Pods into modules on bases, and what the bases say back into Pod status. It is
// the provider behind virtual-kubelet's PodController, one for all bases of the process.
//
//	provider.go    options, and PodController's calls
//	informer.go    the Pods as PodController sees them
//	store.go       the Pods that this controller serves, and what is known of each module on each base
//	order.go       in which order the Pods of a module on a base count, and by what Pods are found
//	modules.go     what a Pod asks for; pure
//	workers.go     one worker for each base and module name, and how many work at once
//	plan.go        what is to be done next for a module on a base; pure
//	reconcile.go   what an operator does: step by step, it makes so what the Pods want,
//	operate.go     with one command, its deadline and its retries,
//	replace.go     or by replacing a version by another jar of the same version
//	endpoints.go   whether Services still send requests to a Pod
//	probes.go      what probes say of modules
//	publish.go     what a publisher does: it writes the status of Pods in the order that loses no request
//	status.go      what a Pod's status should be; pure
//	notrun.go      the status of containers that a base does not run; pure
//	writer.go      writes to the API server
//	ledger.go      what Pods had put on a base, in a form that outlives them
//	rollouts.go    how far the Deployments of the Pods are
//	templates.go   what Deployments and DaemonSets want of their Pods now
//	chores.go      writes to Pods that no lane makes, again until they are made
//	unlabelled.go  Pods on bases that are no modules
//	toleration.go  the toleration for this environment that a Pod may lack
//	vklog.go       virtual-kubelet's log in ours
//
// There are two workers for each base and module name. The operator looks at what the Pods want and
// at what the base says it has, does the next step, asks the base again, and looks once more. The
// publisher writes what the base's list says, whatever the operator waits for. Nothing is believed
// because a command was answered with success.
package vpod
