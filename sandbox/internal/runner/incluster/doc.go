// Package incluster runs the module controller inside a cluster, from the manifests that a person
// applies with kubectl.
//
//	runner.go      Runner: the controllers as the daemon runs them
//	incluster.go   Controller: New, Start(ctx), Ensure
//	manifests.go   the manifests of controller/deploy, with what this sandbox wants of them
//	image.go       the image, made of the program alone
//	replica.go     what a Pod says of one of the controllers; pure
//	number.go      which Pod is which of the controllers; pure
//	actions.go     kill, pause, resume, stop, start, restart of one
//	shared.go      a cluster of the user's: what is left alone there, Forget
//	logs.go        the logs of its Pods as one file
//
// The Pods are followed by one watch: what is known of them needs no call of the API, and every
// change is told at once.
package incluster
