// Package kubelet serves logs and exec of module Pods to the API server, as a kubelet does for Pods
// of containers.
//
// A module has no output of its own: it logs with its base. What kubectl logs prints is its life on
// the base, as the controller saw it: the commands, the answers, the states. What kubectl exec
// offers is one program, ark, which asks the base.
//
//	journal.go  remembers the last entries of each module on each base
//	entry.go    what is worth an entry, and how it reads
//	server.go   options, start and stop
//	auth.go     certificates, and who may call
//	logs.go     kubectl logs
//	exec.go     kubectl exec: one command or a prompt
//	ark.go      the commands of ark
package kubelet
