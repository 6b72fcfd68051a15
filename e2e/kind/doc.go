// Package kind proves the provider kind on a real container engine: a cluster with the controller
// in it, real traffic during a rolling update, and what up and down do about clusters that are
// there already.
//
//	main_test.go        finds the engine, and has one sandbox for all
//	cluster_test.go     what runs in the cluster, and who reads the files of the sandbox
//	pods_test.go        bases with the addresses of their Pods
//	daemonsets_test.go  DaemonSets stay off bases, but for those of modules
//	logs_test.go        logs of modules
//	proxy_test.go       rolling updates under traffic through kube-proxy; what is lost there
//	controller_test.go  the controller killed, paused, replaced, one of two, and on this machine; its log
//	owner_test.go       clusters that are not ours, halves, adoption
//
// They need a container engine and minutes, so they run with E2E_KIND=1 only: `make e2e-kind`,
// which says so where no engine answers.
package kind
