package vpod

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// defaultToleration is the time limit in seconds that the admission plugin DefaultTolerationSeconds adds to
// tolerations of unreachable Nodes.
const defaultToleration = 300 * time.Second

// wantedTolerations returns the tolerations that a module Pod must have, and whether they differ from its current ones.
// It adds or changes the tolerations of:
//
//   - The environment of this controller, if the Pod tolerates bases but no environment, as in the samples of documents
//     5.1 and 5.2 of Module Controller V2.
//   - Unreachable Nodes, without the default limit. While no controller renews the Leases of Nodes, Kubernetes treats
//     all of them as unreachable, and would evict Pods whose modules serve. The controller itself deletes the Pods of
//     removed bases.
func (p *Provider) wantedTolerations(pod *corev1.Pod) (_ []corev1.Toleration, changed bool) {
	list := slices.Clone(pod.Spec.Tolerations)
	scheduled := pod.Spec.NodeName != ""
	if pod.DeletionTimestamp != nil || p.opts.AddTolerationFor == "" ||
		!workload.Tolerates(list, labels.TaintVirtualNode) || scheduled && !p.Serves(pod.Spec.NodeName) {
		return nil, false
	}
	if !scheduled && !workload.Tolerates(list, labels.TaintEnv) {
		changed = true
		list = append(list, workload.EnvToleration(p.opts.AddTolerationFor))
	}
	for i, t := range list {
		limit := ptr.Deref(t.TolerationSeconds, 0)
		if t.Key == corev1.TaintNodeUnreachable && limit == int64(p.opts.TimeScale.Of(defaultToleration).Seconds()) {
			list[i].TolerationSeconds = nil
			changed = changed || scheduled // an unscheduled Pod may belong to another controller
		}
	}
	return list, changed
}

// ensureTolerations queues a patch if the tolerations of a Pod must change. It does not block. The API server only
// allows adding tolerations and changing tolerationSeconds.
func (p *Provider) ensureTolerations(pod *corev1.Pod) {
	if _, changed := p.wantedTolerations(pod); changed {
		p.podWrites.Add(podKey(nameOf(pod)))
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
	_, err = p.writer.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// podKey identifies a Pod.
type podKey types.NamespacedName

func (k podKey) attrs() []any { return []any{"pod", types.NamespacedName(k).String()} }

const (
	// maxPodWrites is the maximum number of concurrent calls of syncPod.
	maxPodWrites = 8
	// conflictDelay is the delay before a retry after a conflict. By then, the informer has usually received the
	// conflicting write.
	conflictDelay = 200 * time.Millisecond
)

// syncPod performs the writes of a Pod that do not depend on a module slot: its tolerations, its deletion at the end
// of the grace period, and the status of a Pod that is not a module. It returns the delay before the next call.
func (p *Provider) syncPod(ctx context.Context, key podKey) (requeueAfter time.Duration, err error) {
	name := types.NamespacedName(key)
	pod, unmanaged := p.unmanaged.Get(name)
	if !unmanaged {
		var known bool
		pod, known = p.informer.Get(name)
		if !known {
			return 0, nil
		}
	}
	if pod.Spec.NodeName != "" {
		served := p.servedBase(p.Identity(pod.Spec.NodeName))
		if served == nil {
			return 0, nil
		}
		var done func()
		ctx, done = served.withContext(ctx)
		defer done()
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	list, changed := p.wantedTolerations(pod)
	switch {
	case unmanaged:
		err = p.syncUnmanaged(ctx, pod)
	case pod.DeletionTimestamp != nil:
		if left := time.Until(pod.DeletionTimestamp.Time); left > 0 {
			return left, nil
		}
		err = p.writer.delete(ctx, pod)
	case changed:
		err = p.patchTolerations(ctx, pod, list)
	}
	if apierrors.IsConflict(err) {
		return conflictDelay, nil
	}
	return 0, ignoreNotFound(err)
}
