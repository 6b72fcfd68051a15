package vpod

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// needsToleration says that a Pod is meant for a base and can't get onto one, because it tolerates
// no environment: so are the samples of document 5.1 and 5.2.
func needsToleration(pod *corev1.Pod) bool {
	names := func(key string) bool {
		return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		})
	}
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && names(labels.TaintVirtualNode) && !names(labels.TaintEnv)
}

// tolerate adds the toleration for this environment; Kubernetes allows no other change of a Pod's
// tolerations.
func (p *Provider) tolerate(ctx context.Context, pod *corev1.Pod) {
	release, err := p.operators.slots.acquire(ctx, "") // together they count as one base
	if err != nil {
		return
	}
	defer release()
	tolerations := append(slices.Clone(pod.Spec.Tolerations), corev1.Toleration{
		Key: labels.TaintEnv, Operator: corev1.TolerationOpEqual, Value: p.opts.AddTolerationFor, Effect: corev1.TaintEffectNoExecute,
	})
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"tolerations": tolerations},
	})
	if err == nil {
		_, err = p.writer.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil { // somebody changed the Pod: its update comes here too
		p.opts.Logger.Debug("could not add the environment's toleration to a pod", "pod", nameOf(pod).String(), "err", err)
	}
}
