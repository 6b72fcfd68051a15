package vpod

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// tolerated is for how long Kubernetes lets Pods stay on a Node that it takes for unreachable, where
// nothing else is said (admission plugin DefaultTolerationSeconds).
const tolerated = 300 * time.Second

// tolerations returns what a module Pod is to tolerate, and whether that is more than it does. What
// its author chose stays.
//
//   - This environment, if it is meant for a base and tolerates no environment, so that it can't get
//     onto one: so are the samples of document 5.1 and 5.2.
//   - A Node that is unreachable, without the limit that admission set. While no controller renews
//     Nodes, Kubernetes takes all of them for unreachable, and would evict Pods whose modules serve.
//     Whether a base is dead is for the controller to say, and it deletes its Pods then.
func (p *Provider) tolerations(pod *corev1.Pod) (_ []corev1.Toleration, more bool) {
	list := slices.Clone(pod.Spec.Tolerations)
	names := func(key string) bool {
		return slices.ContainsFunc(list, func(t corev1.Toleration) bool {
			return t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		})
	}
	scheduled := pod.Spec.NodeName != ""
	if pod.DeletionTimestamp != nil || p.opts.AddTolerationFor == "" || !names(labels.TaintVirtualNode) || scheduled && !p.Serves(pod.Spec.NodeName) {
		return nil, false
	}
	if !scheduled && !names(labels.TaintEnv) {
		more = true
		list = append(list, corev1.Toleration{
			Key: labels.TaintEnv, Operator: corev1.TolerationOpEqual, Value: p.opts.AddTolerationFor, Effect: corev1.TaintEffectNoExecute,
		})
	}
	for i, t := range list {
		limit := ptr.Deref(t.TolerationSeconds, 0)
		if t.Key == corev1.TaintNodeUnreachable && limit == int64(p.opts.Speed.Of(tolerated).Seconds()) {
			list[i].TolerationSeconds = nil
			more = more || scheduled // before, it may still become another controller's
		}
	}
	return list, more
}

// tolerate has a Pod tolerate what it is to, without waiting. Kubernetes allows no other change of
// tolerations but more of them, and of their seconds.
func (p *Provider) tolerate(pod *corev1.Pod) {
	if _, more := p.tolerations(pod); more {
		p.chores.Add(podKey(nameOf(pod)))
	}
}

func (p *Provider) patchTolerations(ctx context.Context, pod *corev1.Pod, tolerations []corev1.Toleration) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"tolerations": tolerations},
	})
	if err != nil {
		return err
	}
	_, err = p.writer.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
