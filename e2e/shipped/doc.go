// Package shipped tests module-controller processes that run with the environment and the permissions of the shipped
// manifests (controller/deploy), in a cluster that belongs to no sandbox. make e2e runs the tests.
//
//	main_test.go      the cluster, and a kubeconfig with the permissions of the manifests
//	world_test.go     broker, controller processes, fakebase processes
//	watch_test.go     records of changes in the cluster, and its inventory
//	client_test.go    a client that sends requests to a module all the time
//	coexist_test.go   koupsandbox up --provider existing in a cluster that already has a controller
//	balancer_test.go  two controllers behind one TCP load balancer
//	broker_test.go    bases over HTTP while the broker is unavailable
package shipped
