package fuzz

import (
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

type object = map[string]any

// version is the text of the n-th version of a module.
func version(n int) string { return fmt.Sprintf("%d.0.0", n) }

// jar is the URL of a version; image counts those of the same version, from 0.
func jar(module string, n, image int) string {
	name := fmt.Sprintf("https://modules.example/%s-%s", module, version(n))
	if image > 0 {
		name += fmt.Sprintf("-r%d", image)
	}
	return name + "-ark-biz.jar"
}

// workload is the object of a workload with a version of its module.
func (w Workload) workload(n, image, replicas int) v1alpha1.Object {
	spec := object{"selector": object{"matchLabels": object{"app": w.Module}}, "template": w.template(n, image)}
	switch w.Kind {
	case deployment:
		spec["replicas"] = replicas
		spec["strategy"] = object{"rollingUpdate": object{"maxSurge": "30%", "maxUnavailable": 0}}
	case daemonSet:
		spec["updateStrategy"] = object{"rollingUpdate": object{"maxSurge": 1, "maxUnavailable": 0}}
	case statefulSet:
		spec["replicas"], spec["serviceName"] = replicas, w.Module
	}
	return v1alpha1.Object{"apiVersion": "apps/v1", "kind": w.Kind, "metadata": object{"name": w.Module}, "spec": spec}
}

func (w Workload) template(n, image int) object {
	labels := object{"app": w.Module, "version": version(n), "virtual-kubelet.koupleless.io/component": "module"}
	same := object{"app": w.Module, "version": version(n)}
	if w.Kind == statefulSet { // two of its Pods are never of one base, whatever their versions
		same = object{"app": w.Module}
	}
	spec := object{
		"containers": []any{object{"name": w.Module, "image": jar(w.Module, n, image), "env": []any{object{"name": "BIZ_VERSION", "value": version(n)}}}},
		"tolerations": []any{
			object{"key": "schedule.koupleless.io/virtual-node", "operator": "Exists"},
			object{"key": "schedule.koupleless.io/node-env", "operator": "Exists"},
			object{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
		},
	}
	if w.Kind != daemonSet {
		spec["affinity"] = object{"podAntiAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": []any{
			object{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": object{"matchLabels": same}},
		}}}
	}
	return object{"metadata": object{"labels": labels}, "spec": spec}
}

func (w Workload) service() v1alpha1.Object {
	return v1alpha1.Object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": w.Module}, "spec": object{
		"selector": object{"app": w.Module}, "ports": []any{object{"port": 80, "targetPort": 8080}},
	}}
}
