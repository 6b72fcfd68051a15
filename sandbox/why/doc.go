// Package why answers one question: why is my module Pod not Ready? It reads what the Kubernetes API
// knows, follows the chain from the scheduler to the module's health, and names the first link that
// fails, with what to do about it and what was compared.
//
// Gather reads the cluster, and writes nothing. Explain concludes from a Snapshot and does no I/O, so the same Snapshot
// always has the same Answer.
//
// The reasons, timings and message formats of the controller come from its packages api, errcode and workload.
//
//	target.go     Target: what is asked about
//	snapshot.go   Snapshot: what Explain concludes from
//	gather.go     Gather: from a Target to a Snapshot
//	find.go       objects that the user may have meant
//	nowhere.go    Nowhere: a Pod that does not exist yet
//	why.go        Explain and Answer; the order of the rules
//	reason.go     the reasons
//	view.go       values that several rules use
//	placement.go  the first requirement that each base does not meet
//	schedule.go   rules: Pods without a Node, compared with the bases
//	scheduler.go  rules: Pods without a Node, by the scheduler's message
//	pod.go        rules: Pods that are Ready, deleted or ended, or are not modules
//	serving.go    rules: the controller and the heartbeats of a base
//	command.go    rules: commands and their failures
//	health.go     rules: probes and readiness gates
//	workload.go   rules: Deployments, DaemonSets and StatefulSets
//	node.go       rules: Nodes
//	evidence.go   Evidence
package why
