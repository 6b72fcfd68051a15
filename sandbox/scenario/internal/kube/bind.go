package kube

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// Bind returns the object with a node selector that keeps a module's Pods, or those of a workload's
// template, on the bases of a group; any other object as it is. It also tells whether it has bound
// it.
func Bind(o *unstructured.Unstructured, group string) (*unstructured.Unstructured, bool) {
	metadata, spec := []string{"metadata"}, []string{"spec"}
	if o.GetKind() != "Pod" {
		metadata, spec = []string{"spec", "template", "metadata"}, []string{"spec", "template", "spec"}
	}
	own, _, _ := unstructured.NestedStringMap(o.Object, append(metadata, "labels")...)
	if own[labels.Component] != labels.Module && own[labels.OlderComponent] != labels.Module {
		return o, false
	}
	o = o.DeepCopy()
	if err := unstructured.SetNestedField(o.Object, group, append(spec, "nodeSelector", labels.BaseCluster)...); err != nil {
		return o, false // no spec: the API says what is wrong with it
	}
	return o, true
}
