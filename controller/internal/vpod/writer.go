package vpod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// writer makes the writes to Pods. They are made in the caller's goroutine, so that the caller
// knows when the API server has acknowledged one.
type writer struct {
	client kubernetes.Interface
	pods   *Informer
}

// write writes a Pod's status as compute makes it from what the API server has, if it differs. gone
// says that the Pod is no more.
func (w *writer) write(ctx context.Context, e *entry, pod *corev1.Pod, compute func(before corev1.PodStatus) corev1.PodStatus) (gone bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	live := w.newest(e, pod)
	for range 3 {
		status := compute(live.Status)
		if equality.Semantic.DeepEqual(live.Status, status) {
			return false, nil
		}
		update := &corev1.Pod{ObjectMeta: *live.ObjectMeta.DeepCopy(), Status: status} // the API server keeps the spec at a write of status
		written, err := w.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
		switch {
		case err == nil:
			e.acknowledged(written)
			return false, nil
		case apierrors.IsNotFound(err):
			return true, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("writing the status of pod %s: %w", nameOf(pod), err)
		}
		if live, err = w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return apierrors.IsNotFound(err), ignoreNotFound(err)
		}
		if live.UID != e.uid {
			return true, nil
		}
	}
	return false, fmt.Errorf("writing the status of pod %s: it changed three times meanwhile", nameOf(pod))
}

// newest is the Pod as last acknowledged to this writer or shown by the informer, whichever is
// newer.
func (w *writer) newest(e *entry, pod *corev1.Pod) *corev1.Pod {
	live := pod
	if cached, ok := w.pods.Get(nameOf(pod)); ok && cached.UID == e.uid {
		live = cached
	}
	if e.status != nil && !newer(live.ResourceVersion, e.rv) {
		mine := live.DeepCopy()
		mine.Status, mine.ResourceVersion = *e.status.DeepCopy(), e.rv
		return mine
	}
	return live
}

// status is a Pod's status as the API server has it.
func (w *writer) status(e *entry, pod *corev1.Pod) corev1.PodStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return w.newest(e, pod).Status
}

// ended writes that nothing of a Pod runs any more, as a kubelet does before a Pod leaves the API:
// one with finalizers stays there.
func (w *writer) ended(ctx context.Context, e *entry, pod *corev1.Pod) error {
	writing, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	now := time.Now()
	_, err := w.write(writing, e, pod, func(before corev1.PodStatus) corev1.PodStatus { return podstatus.Ended(before, now) })
	return err
}

// preferred is the deletion cost of a Pod that is to be deleted before others.
const preferred = "-1"

// deletionCost is whether the deletion cost of a Pod is preferred, and the previous value.
type deletionCost struct {
	preferred bool
	previous  string
}

// preferDeletion sets the deletion cost of a Pod to preferred, so that it is the first Pod of its ReplicaSet to be
// deleted, or restores the previous value.
func (w *writer) preferDeletion(ctx context.Context, e *entry, pod *corev1.Pod, prefer bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.cost
	if before == nil {
		previous, marked := pod.Annotations[labels.DeletionCost]
		before = &deletionCost{marked, previous}
	}
	if before.preferred == prefer {
		return nil
	}
	previous := before.previous
	// Use the value in the Pod, which a user may have changed, unless the Pod is older than the last write.
	shown := pod.Annotations[corev1.PodDeletionCost]
	if _, marked := pod.Annotations[labels.DeletionCost]; marked != prefer && (prefer || shown != preferred) {
		previous = shown
	}
	annotations := map[string]any{corev1.PodDeletionCost: nil, labels.DeletionCost: nil}
	switch {
	case prefer:
		annotations = map[string]any{corev1.PodDeletionCost: preferred, labels.DeletionCost: previous}
	case previous != "":
		annotations[corev1.PodDeletionCost] = previous
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	written, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsInvalid(err) { // the UID is immutable, so another Pod has this name now
		return nil
	}
	if err != nil {
		return ignoreNotFound(fmt.Errorf("writing the deletion cost of pod %s: %w", nameOf(pod), err))
	}
	e.cost = &deletionCost{prefer, previous}
	e.acknowledged(written)
	return nil
}

// delete takes a Pod out of the API: nothing of it is on its base, or its base is gone.
func (w *writer) delete(ctx context.Context, pod *corev1.Pod) error {
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsConflict(err) { // another Pod has its name, or an API server could not make up its mind
		if live, reading := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); reading == nil && live.UID != pod.UID {
			return nil
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s: %w", nameOf(pod), err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// newer says whether one resource version of an object is later than another.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}

const apiTimeout = 30 * time.Second // for one write; the API server's own limit is 60 s
