// Package why answers one question: why is my module Pod not Ready? It reads what the Kubernetes API
// knows, follows the chain from the scheduler to the module's health, and names the first link that
// fails, with what to do about it and what was compared.
//
// Gather reads the cluster, and writes nothing. Explain concludes from a Snapshot and does no I/O, so the same Snapshot
// always has the same Answer.
//
// The rules are in tables, one for each part of the chain: pod.go, schedule.go, scheduler.go, serving.go, command.go and
// health.go for Pods, workload.go for workloads, node.go for Nodes. Explain in why.go has their order. Reasons, timings and
// the format of messages come from the packages api, errcode and workload of the controller.
package why
