package kube

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The labels that make a Pod a module's, under the two keys of the documents, and
// the label of a base's Node that says which group of bases it belongs to.
const (
	componentLabel    = "virtual-kubelet.koupleless.io/component"
	oldComponentLabel = "module-controller.koupleless.io/component"
	componentModule   = "module"
	// GroupLabel is the cluster name that a base reports, on its Node: bases of a
	// run report the run's group.
	GroupLabel = "base.koupleless.io/cluster-name"
)

// Bind returns the object with a node selector that keeps a module's Pods, or
// those of a workload's template, on the bases of a group; any other object as it
// is. It also tells whether it has bound it.
func Bind(o *unstructured.Unstructured, group string) (*unstructured.Unstructured, bool) {
	metadata, spec := []string{"metadata"}, []string{"spec"}
	if o.GetKind() != "Pod" {
		metadata, spec = []string{"spec", "template", "metadata"}, []string{"spec", "template", "spec"}
	}
	labels, _, _ := unstructured.NestedMap(o.Object, append(metadata, "labels")...)
	if labels[componentLabel] != componentModule && labels[oldComponentLabel] != componentModule {
		return o, false
	}
	o = o.DeepCopy()
	if err := unstructured.SetNestedField(o.Object, group, append(spec, "nodeSelector", GroupLabel)...); err != nil {
		return o, false // no spec: the API says what is wrong with it
	}
	return o, true
}
