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

// apiTimeout is the maximum duration of a write. The API server's own limit is 60 s.
const apiTimeout = 30 * time.Second

// written is the result of the last write of a Pod.
type written struct {
	mu  sync.Mutex  // held during a write
	pod *corev1.Pod // as the API server has returned it; nil if the informer has it, or before the first write
	rv  string      // its resource version
}

// acknowledged records the result of a write. The caller holds mu.
func (w *written) acknowledged(pod *corev1.Pod) { w.pod, w.rv = pod, pod.ResourceVersion }

// shown records that the informer has a Pod. foreign reports whether another client may have written it.
func (w *written) shown(pod *corev1.Pod) (foreign bool) {
	if !w.mu.TryLock() { // the result of the current write may be older or newer
		return true
	}
	defer w.mu.Unlock()
	if !newer(w.rv, pod.ResourceVersion) {
		w.pod = nil
	}
	return newer(pod.ResourceVersion, w.rv)
}

// writer writes Pods. Its methods return after the API server has acknowledged the write.
type writer struct {
	client kubernetes.Interface
	pods   *Informer
}

// write writes the status that compute returns for the current one, if they differ. gone reports whether the Pod does not
// exist any more.
func (w *writer) write(ctx context.Context, e *podRecord, pod *corev1.Pod,
	compute func(before corev1.PodStatus) corev1.PodStatus) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	e.written.mu.Lock()
	defer e.written.mu.Unlock()
	live := w.newest(e, pod)
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
			e.written.acknowledged(updated)
			return false, nil
		case apierrors.IsNotFound(err):
			return true, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("writing the status of pod %s: %w", nameOf(pod), err)
		}
		live, err = w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), ignoreNotFound(err)
		}
		if live.UID != e.uid {
			return true, nil
		}
	}
	return false, fmt.Errorf("writing the status of pod %s: 3 conflicts", nameOf(pod))
}

// newest returns the Pod of the last write or of the informer, whichever is newer. The caller holds written.mu.
func (w *writer) newest(e *podRecord, pod *corev1.Pod) *corev1.Pod {
	live := pod
	if cached, ok := w.pods.Get(nameOf(pod)); ok && cached.UID == e.uid {
		live = cached
	}
	if e.written.pod != nil && !newer(live.ResourceVersion, e.written.rv) {
		return e.written.pod
	}
	return live
}

// status returns the status of a Pod in the API server.
func (w *writer) status(e *podRecord, pod *corev1.Pod) corev1.PodStatus {
	e.written.mu.Lock()
	defer e.written.mu.Unlock()
	return w.newest(e, pod).Status
}

// ended writes that the containers of a Pod have ended, as a kubelet does before it deletes a Pod.
func (w *writer) ended(ctx context.Context, e *podRecord, pod *corev1.Pod) error {
	now := time.Now()
	_, err := w.write(ctx, e, pod,
		func(before corev1.PodStatus) corev1.PodStatus { return podstatus.Completed(before, now) })
	return err
}

// preferred is the deletion cost of a Pod that is to be deleted before others.
const preferred = "-1"

// preferDeletion sets the deletion cost of a Pod to preferred, so that it is the first Pod of its ReplicaSet to be
// deleted, or restores the previous value.
func (w *writer) preferDeletion(ctx context.Context, e *podRecord, pod *corev1.Pod, prefer bool) error {
	e.written.mu.Lock()
	defer e.written.mu.Unlock()
	have := w.newest(e, pod).Annotations
	previous, marked := have[labels.DeletionCost]
	if marked == prefer {
		return nil
	}
	if prefer || have[corev1.PodDeletionCost] != preferred { // a user has set the value
		previous = have[corev1.PodDeletionCost]
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
	patched, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if apierrors.IsInvalid(err) { // the UID is immutable, so another Pod has this name now
		return nil
	}
	if err != nil {
		return ignoreNotFound(fmt.Errorf("writing the deletion cost of pod %s: %w", nameOf(pod), err))
	}
	e.written.acknowledged(patched)
	return nil
}

// delete deletes a Pod from the API without a grace period.
func (w *writer) delete(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsConflict(err) { // another Pod has its name, or the API server was busy
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

// newer reports whether a resource version of an object is newer than another one.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}
