// Package baseline selects what a starting base must install: the modules that every base of its
// kind has. Those are the modules of peer Deployments and of DaemonSets whose Pods may run on the
// base (Module Controller V2 documents 5.2 and 5.4). It only reads; sending the answer is the
// tunnels' work.
//
//	baseline.go  Options, New, Select
//	newest.go    which of several versions is the newest
//
// The Pods of those workloads are scheduled to the new base at about the same time and ask for the
// same modules, so installing a module that the base has already must count as a success.
package baseline
