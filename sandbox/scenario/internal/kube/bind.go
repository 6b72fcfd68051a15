package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// Bind returns the object with a node selector that keeps a module's Pods, or those of a workload's
// template, on the bases of a group; any other object as it is. A selector that names one base by its
// host name may name it as scenarios do, SET-N for GROUP-SET-N. It also tells whether it has bound it.
func Bind(o *unstructured.Unstructured, group string) (*unstructured.Unstructured, bool) {
	metadata, spec := []string{"metadata"}, []string{"spec"}
	if o.GetKind() != "Pod" {
		metadata, spec = []string{"spec", "template", "metadata"}, []string{"spec", "template", "spec"}
	}
	if !isModule(o, metadata) {
		return o, false
	}
	o = o.DeepCopy()
	spec = append(spec, "nodeSelector")
	if err := unstructured.SetNestedField(o.Object, group, append(spec, labels.BaseCluster)...); err != nil {
		return o, false // no spec: the API says what is wrong with it
	}
	selector, _, _ := unstructured.NestedMap(o.Object, spec...) // it is a map by now
	if host, ok := selector[labels.BaseHost].(string); ok && !strings.HasPrefix(host, group+"-") {
		selector[labels.BaseHost] = group + "-" + host
		_ = unstructured.SetNestedMap(o.Object, selector, spec...) // so is all above it
	}
	return o, true
}

func isModule(o *unstructured.Unstructured, metadata []string) bool {
	own, _, _ := unstructured.NestedStringMap(o.Object, append(metadata, "labels")...)
	return own[labels.Component] == labels.Module || own[labels.OlderComponent] == labels.Module
}

// Template returns the template of a workload's module Pods; false for all other objects.
func Template(o *unstructured.Unstructured) (map[string]any, bool) {
	if o.GetKind() == "Pod" || !isModule(o, []string{"spec", "template", "metadata"}) {
		return nil, false
	}
	template, there, err := unstructured.NestedMap(o.Object, "spec", "template")
	return template, there && err == nil
}

// Modules are the names of the modules of a template.
func Modules(template map[string]any) (names []string) {
	containers, _, _ := unstructured.NestedSlice(template, "spec", "containers")
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			if name, ok := c["name"].(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}
