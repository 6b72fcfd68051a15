package fuzz

import (
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

type object = map[string]any

func version(n int) string { return fmt.Sprintf("%d.0.0", n) }

// jar returns the URL of the jar of a module version. A version can have several images; image is the number of the
// image, from 0.
func jar(module string, n, image int) string {
	name := fmt.Sprintf("https://modules.example/%s-%s", module, version(n))
	if image > 0 {
		name += fmt.Sprintf("-r%d", image)
	}
	return name + "-ark-biz.jar"
}

// fit limits the number of replicas to the number of bases. A DaemonSet and a peer Deployment have one replica per
// base.
func (w *Workload) fit(bases int) {
	switch w.Kind {
	case daemonSet, peer:
		w.Replicas = bases
	case pod:
		w.Replicas = 1
	default:
		w.Replicas = min(w.Replicas, bases)
	}
}

func (w Workload) kind() (kind, version string) {
	switch w.Kind {
	case pod:
		return pod, "v1"
	case peer:
		return deployment, "apps/v1"
	default:
		return w.Kind, "apps/v1"
	}
}

// workload returns the API object of the workload. Its Pods request version n of the module.
func (w Workload) workload(n, image, replicas int) v1alpha1.Object {
	kind, apiVersion := w.kind()
	if w.Kind == pod {
		template := w.template(n, image)
		template["metadata"].(object)["name"] = w.Module //nolint:forcetypeassert // template sets it
		return v1alpha1.Object{"apiVersion": apiVersion, "kind": kind, "metadata": template["metadata"],
			"spec": template["spec"]}
	}
	meta := object{"name": w.Module}
	spec := object{"selector": object{"matchLabels": object{"app": w.Module}}, "template": w.template(n, image)}
	switch w.Kind {
	case deployment, peer:
		if w.Kind == deployment {
			spec["replicas"] = replicas
		} else {
			meta["labels"] = object{"virtual-kubelet.koupleless.io/component": "module-deployment",
				"virtual-kubelet.koupleless.io/strategy": "peer"}
		}
		spec["strategy"] = object{"rollingUpdate": object{"maxSurge": "30%", "maxUnavailable": 0}}
	case daemonSet:
		spec["updateStrategy"] = object{"rollingUpdate": object{"maxSurge": 1, "maxUnavailable": 0}}
	case statefulSet:
		spec["replicas"], spec["serviceName"] = replicas, w.Module
	}
	return v1alpha1.Object{"apiVersion": apiVersion, "kind": kind, "metadata": meta, "spec": spec}
}

func (w Workload) template(n, image int) object {
	labels := object{"app": w.Module, "version": version(n), "virtual-kubelet.koupleless.io/component": "module"}
	apart := object{"topologyKey": "topology.kubernetes.io/zone",
		"labelSelector": object{"matchLabels": object{"app": w.Module}}}
	if w.Kind == deployment || w.Kind == peer { // each base gets one Pod per template
		apart["matchLabelKeys"] = []any{"pod-template-hash"}
	}
	spec := object{
		"containers": []any{object{"name": w.Module, "image": jar(w.Module, n, image),
			"env": []any{object{"name": "BIZ_VERSION", "value": version(n)}}}},
		"tolerations": []any{
			object{"key": "schedule.koupleless.io/virtual-node", "operator": "Exists"},
			object{"key": "schedule.koupleless.io/node-env", "operator": "Exists"},
			object{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
		},
	}
	if w.Kind != daemonSet && w.Kind != pod {
		spec["affinity"] = object{
			"podAntiAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": []any{apart}}}
	}
	return object{"metadata": object{"labels": labels}, "spec": spec}
}

func (w Workload) service() v1alpha1.Object {
	return v1alpha1.Object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": w.Module}, "spec": object{
		"selector": object{"app": w.Module}, "ports": []any{object{"port": 80, "targetPort": 8080}},
	}}
}
