package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// Bind returns a copy of an object in which all module Pods and module Pod templates select the bases of a group by a
// node selector. Bind replaces other cluster names in node selectors and node affinities. If a node selector contains
// the short host name SET-N of a base, Bind replaces it by the full name GROUP-SET-N.
func Bind(o *unstructured.Unstructured, group string) *unstructured.Unstructured {
	o = o.DeepCopy()
	bind(o.Object, group)
	return o
}

// bind adds the node selector to all module Pods and module Pod templates in a value, at any depth.
func bind(value any, group string) {
	EachMapping(value, func(pod map[string]any) bool {
		spec, _ := pod["spec"].(map[string]any)
		if _, isPod := spec["containers"]; !isPod || !isModule(pod) {
			return true
		}
		if err := unstructured.SetNestedField(spec, group, "nodeSelector", labels.BaseCluster); err != nil {
			return false // nodeSelector is not a mapping: the API server rejects it
		}
		selectGroup(spec["affinity"], group)
		selector, _ := spec["nodeSelector"].(map[string]any)
		if host, ok := selector[labels.BaseHost].(string); ok && !strings.HasPrefix(host, group+"-") {
			selector[labels.BaseHost] = group + "-" + host
		}
		return false
	})
}

// selectGroup makes all requirements for a cluster name in a value, at any depth, select the group.
func selectGroup(value any, group string) {
	EachMapping(value, func(requirement map[string]any) bool {
		if requirement["key"] != labels.BaseCluster {
			return true
		}
		requirement["operator"], requirement["values"] = "In", []any{group}
		return false
	})
}

// EachMapping calls visit for all mappings in a value, at any depth. If visit returns false, EachMapping skips the
// values of the mapping.
func EachMapping(value any, visit func(map[string]any) bool) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			EachMapping(item, visit)
		}
	case map[string]any:
		if !visit(value) {
			return
		}
		for _, field := range value {
			EachMapping(field, visit)
		}
	}
}

func isModule(pod map[string]any) bool {
	podLabels, _, _ := unstructured.NestedStringMap(pod, "metadata", "labels")
	return podLabels[labels.Component] == labels.Module || podLabels[labels.OlderComponent] == labels.Module
}

// Template returns the Pod template of a workload with modules, and true. For any other object, it returns false.
func Template(o *unstructured.Unstructured) (map[string]any, bool) {
	template, exists, err := unstructured.NestedMap(o.Object, "spec", "template")
	return template, exists && err == nil && o.GetKind() != "Pod" && isModule(template)
}

// Modules returns the names of the modules in a Pod template.
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
