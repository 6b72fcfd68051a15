// Package why answers one question: why is my module Pod not Ready? It reads what the Kubernetes API
// knows, follows the chain from the scheduler to the module's health, and names the first link that
// fails, with what to do about it and what was compared.
//
// Gather reads the cluster, and writes nothing. Explain concludes from a Snapshot and does no I/O, so the same Snapshot
// always has the same Answer.
//
// The reasons, timings and message formats of the controller come from its packages api, errcode and workload.
package why
