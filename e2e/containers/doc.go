// Package containers lets real faults happen to bases and to a user's broker: each is a
// container on a network of the test's own, and a container engine takes the network
// away, pauses and kills. Truth is what a request to the module in a container
// gets, beside what the API says. Run it with make e2e-containers.
//
//	main_test.go     the engine, one sandbox for all
//	images_test.go   images without a registry: from static programs, and from Debian's mosquitto
//	world_test.go    modules on the bases, and what the API says of them
//	parts_test.go    the network, the broker, the bases; what the engine does to them
//	faults_test.go   partition, pause and kill of a base; pause and kill of the broker
//	rollout_test.go  a rolling update while requests run
package containers
