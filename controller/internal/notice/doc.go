// Package notice tells users, by Events, what Kubernetes and a base will do with their workloads
// without a word: fields of a Pod that a module has no use for, and a DaemonSet that makes no Pods.
//
//	pods.go        one Event for each Pod that asks for what a base does not do
//	daemonsets.go  an Event for a DaemonSet whose template does not tolerate the environment
//
// Nothing here blocks or keeps a goroutine: the handlers run in those of the informers, and the
// recorder queues.
package notice
