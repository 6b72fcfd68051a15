// Package why answers one question: why is my module Pod not Ready? It reads what the Kubernetes API
// knows, follows the chain from the scheduler to the module's health, and names the first link that
// fails, with what to do about it and what was compared.
//
// It works in two parts. Gather reads; Explain concludes, and does no I/O, so that the same Snapshot
// always has the same Answer. Nothing is ever written to the cluster.
//
//	target.go     what is asked about: a Pod, a Node, a workload
//	snapshot.go   what Explain concludes from
//	gather.go     Gather: from a Target to a Snapshot, with few requests
//	find.go       what a name may have meant
//	why.go        Explain, Answer, Evidence; the order of the rules
//	reason.go     the names of all situations
//	view.go       a Snapshot with what several rules ask of it; words for times and amounts
//	placement.go  what keeps a Pod off each base: labels, taints, state, room
//	labels.go     labels that the controller writes to the Nodes of bases
//	schedule.go   rules: a Pod without a Node, by the comparison with the bases
//	scheduler.go  rules: a Pod without a Node, by the message of the scheduler
//	nowhere.go    the same of a Pod that is not there yet
//	pod.go        rules: what a Pod is, and whether it is Ready or goes
//	serving.go    rules: who serves the base, and whether it is heard
//	command.go    rules: what the base was told, and what it answered
//	health.go     rules: probes and readiness gates
//	workload.go   rules: Deployments, DaemonSets and StatefulSets
//	node.go       rules: Nodes
//	evidence.go   what was compared, and what was said last
package why
