// Package labels names the labels, annotations, taints and conditions that module controllers,
// module Pods and Nodes of bases share through the Kubernetes API. It imports nothing of this
// module, so whoever reads the API can use it.
//
//	labels.go  the names and values; Value, which reads either spelling
package labels
