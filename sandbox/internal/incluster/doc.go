// Package incluster runs the module controller inside a cluster, from the manifests that a person applies with kubectl.
//
//	incluster.go   Controller: Ensure, Scale, Kill, State
//	manifests.go   the manifests of controller/deploy, with what this sandbox wants of them
//	image.go       the image, made of the program alone
//	logs.go        the logs of its Pods as one file
package incluster
