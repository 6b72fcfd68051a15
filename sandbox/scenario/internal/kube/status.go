package kube

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Progress is how far something is.
type Progress struct {
	// Done tells that it is complete, Failed that it will never be.
	Done, Failed bool
	// Message says what is missing.
	Message string
}

func pending(format string, args ...any) Progress {
	return Progress{Message: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) Progress {
	return Progress{Failed: true, Message: fmt.Sprintf(format, args...)}
}

// Rollout says how far the rollout of a Deployment, DaemonSet or StatefulSet is, by the rules of
// kubectl rollout status. One that wants no Pod at all is not complete: nothing would have been
// looked at.
func Rollout(o *unstructured.Unstructured) Progress {
	switch o.GetKind() {
	case "Deployment":
		return typed(o, deployment)
	case "DaemonSet":
		return typed(o, daemonSet)
	case "StatefulSet":
		return typed(o, statefulSet)
	default:
		return failed("a %s has no rollout: name a Deployment, DaemonSet or StatefulSet", o.GetKind())
	}
}

func typed[T any](o *unstructured.Unstructured, judge func(*T) Progress) Progress {
	var into T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &into); err != nil {
		return failed("cannot read %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return judge(&into)
}

func deployment(d *appsv1.Deployment) Progress {
	s, want := d.Status, int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" && s.ObservedGeneration >= d.Generation {
			return failed("the Deployment has passed its progressDeadlineSeconds: %s", c.Message)
		}
	}
	switch {
	case s.ObservedGeneration < d.Generation:
		return pending("the Deployment controller has not seen generation %d yet", d.Generation)
	case s.UpdatedReplicas < want:
		return pending("%d of %d Pods are of the new version", s.UpdatedReplicas, want)
	case s.Replicas > s.UpdatedReplicas:
		return pending("%d old Pods are still there", s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < s.UpdatedReplicas:
		return pending("%d of %d new Pods are available", s.AvailableReplicas, s.UpdatedReplicas)
	case want == 0:
		return pending("the Deployment wants no Pods: wait for them to be gone instead")
	}
	return Progress{Done: true, Message: fmt.Sprintf("%d Pods are of the new version and available", want)}
}

func daemonSet(d *appsv1.DaemonSet) Progress {
	s := d.Status
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return failed("the update strategy of the DaemonSet is OnDelete: there is no rollout to wait for")
	}
	switch {
	case s.ObservedGeneration < d.Generation:
		return pending("the DaemonSet controller has not seen generation %d yet", d.Generation)
	case s.DesiredNumberScheduled == 0:
		return pending("the DaemonSet wants no Pods: no Node fits it")
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return pending("%d of %d Pods are of the new version", s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return pending("%d of %d new Pods are available", s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return Progress{Done: true, Message: fmt.Sprintf("%d Pods are of the new version and available", s.DesiredNumberScheduled)}
}

func statefulSet(d *appsv1.StatefulSet) Progress {
	s, want := d.Status, int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return failed("the update strategy of the StatefulSet is OnDelete: there is no rollout to wait for")
	}
	updated := want
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		updated = max(want-*r.Partition, 0)
	}
	switch {
	case s.ObservedGeneration < d.Generation:
		return pending("the StatefulSet controller has not seen generation %d yet", d.Generation)
	case s.ReadyReplicas < want:
		return pending("%d of %d Pods are Ready", s.ReadyReplicas, want)
	case s.UpdateRevision != s.CurrentRevision && s.UpdatedReplicas < updated:
		return pending("%d of %d Pods are of the new version", s.UpdatedReplicas, updated)
	case want == 0:
		return pending("the StatefulSet wants no Pods: wait for them to be gone instead")
	}
	return Progress{Done: true, Message: fmt.Sprintf("%d Pods are Ready, %d of the new version", s.ReadyReplicas, updated)}
}

// Ready tells whether the condition Ready of an object is True, and otherwise what it says.
func Ready(o *unstructured.Unstructured) Progress {
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return failed("cannot read the conditions of %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != "Ready" {
			continue
		}
		if c["status"] == "True" {
			return Progress{Done: true, Message: "Ready"}
		}
		text := fmt.Sprintf("%s %s is not Ready (%v)", o.GetKind(), o.GetName(), c["status"])
		for _, field := range []string{"reason", "message"} {
			if v, there := c[field]; there && v != "" {
				text += fmt.Sprintf(", %v", v)
			}
		}
		return pending("%s", text)
	}
	return pending("%s %s has no condition Ready", o.GetKind(), o.GetName())
}
