package vpod

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
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

// apiTimeout limits the duration of an API request. The API server itself allows up to 60 s.
const apiTimeout = 30 * time.Second

// lastWrite contains the result of the last write of a Pod.
type lastWrite struct {
	mu sync.Mutex // held during a write
	// Pod that the API server returned; nil before the first write, and once the informer has received this Pod
	pod             *corev1.Pod
	resourceVersion string // resource version of the last write
}

// set records a Pod that the API server returned for a write. The caller holds mu.
func (w *lastWrite) set(pod *corev1.Pod) { w.pod, w.resourceVersion = pod, pod.ResourceVersion }

// observe records a Pod that the informer has received. foreign reports whether another client may have written the
// Pod.
func (w *lastWrite) observe(pod *corev1.Pod) (foreign bool) {
	if !w.mu.TryLock() { // a write is in progress: its result may be older or newer than the Pod
		return true
	}
	defer w.mu.Unlock()
	if !isNewer(w.resourceVersion, pod.ResourceVersion) {
		w.pod = nil
	}
	return isNewer(pod.ResourceVersion, w.resourceVersion)
}

// writer writes Pods. Its methods block until the API server has acknowledged the write.
type writer struct {
	client kubernetes.Interface
	pods   *Informer
}

// write replaces the status of a Pod with the result of compute, if the two differ. compute receives the current
// status. It is called again after a conflict. deleted reports whether the Pod does not exist any more.
func (w *writer) write(ctx context.Context, e *podRecord, pod *corev1.Pod,
	compute func(oldStatus corev1.PodStatus) corev1.PodStatus) (deleted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	e.lastWrite.mu.Lock()
	defer e.lastWrite.mu.Unlock()
	live := w.newestPod(e, pod)
	for range 3 {
		status := compute(live.Status)
		if equality.Semantic.DeepEqual(live.Status, status) {
			return false, nil
		}
		// the API server ignores the spec
		update := &corev1.Pod{ObjectMeta: *live.ObjectMeta.DeepCopy(), Status: status}
		updated, err := w.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
		switch {
		case err == nil:
			e.lastWrite.set(updated)
			return false, nil
		case apierrors.IsNotFound(err):
			return true, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("updating the status of pod %s: %w", nameOf(pod), err)
		}
		live, err = w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), ignoreNotFound(err)
		}
		if live.UID != e.uid {
			return true, nil
		}
	}
	return false, fmt.Errorf("updating the status of pod %s: 3 attempts failed with a conflict", nameOf(pod))
}

// newestPod returns the Pod from the last write or from the informer, whichever is newer. The caller holds written.mu.
func (w *writer) newestPod(e *podRecord, pod *corev1.Pod) *corev1.Pod {
	live := pod
	if cached, ok := w.pods.Get(nameOf(pod)); ok && cached.UID == e.uid {
		live = cached
	}
	if e.lastWrite.pod != nil && !isNewer(live.ResourceVersion, e.lastWrite.resourceVersion) {
		return e.lastWrite.pod
	}
	return live
}

// status returns the newest known status of a Pod, from the last write or from the informer.
func (w *writer) status(e *podRecord, pod *corev1.Pod) corev1.PodStatus {
	e.lastWrite.mu.Lock()
	defer e.lastWrite.mu.Unlock()
	return w.newestPod(e, pod).Status
}

// writeCompleted writes a status in which all containers have terminated, as the kubelet does before it deletes a Pod.
func (w *writer) writeCompleted(ctx context.Context, e *podRecord, pod *corev1.Pod) error {
	now := time.Now()
	_, err := w.write(ctx, e, pod,
		func(oldStatus corev1.PodStatus) corev1.PodStatus { return podstatus.Completed(oldStatus, now) })
	return err
}

// deleteFirstCost is the deletion cost of a Pod that its ReplicaSet should delete before other Pods.
const deleteFirstCost = "-1"

// preferDeletion sets the deletion cost of a Pod to deleteFirstCost, so that its ReplicaSet prefers to delete this
// Pod. If prefer is false, it restores the previous deletion cost.
func (w *writer) preferDeletion(ctx context.Context, e *podRecord, pod *corev1.Pod, prefer bool) error {
	e.lastWrite.mu.Lock()
	defer e.lastWrite.mu.Unlock()
	have := w.newestPod(e, pod).Annotations
	previous, marked := have[labels.DeletionCost]
	if marked == prefer {
		return nil
	}
	if prefer || have[corev1.PodDeletionCost] != deleteFirstCost { // a user has set the value
		previous = have[corev1.PodDeletionCost]
	}
	annotations := map[string]any{corev1.PodDeletionCost: nil, labels.DeletionCost: nil}
	switch {
	case prefer:
		annotations = map[string]any{corev1.PodDeletionCost: deleteFirstCost, labels.DeletionCost: previous}
	case previous != "":
		annotations[corev1.PodDeletionCost] = previous
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	patched, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if apierrors.IsInvalid(err) { // the UID does not match: another Pod has this name now
		return nil
	}
	if err != nil {
		return ignoreNotFound(fmt.Errorf("writing the deletion cost of pod %s: %w", nameOf(pod), err))
	}
	e.lastWrite.set(patched)
	return nil
}

// delete deletes a Pod from the API without a grace period. It returns nil if the Pod does not exist any more.
func (w *writer) delete(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsConflict(err) { // another Pod has this name, or a concurrent write won
		if live, reading := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name,
			metav1.GetOptions{}); reading == nil && live.UID != pod.UID {
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

// isNewer reports whether the resource version a of an object is newer than b.
func isNewer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}
