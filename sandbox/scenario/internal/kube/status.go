package kube

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// Reason is the reason for the state that a Progress reports.
type Reason string

// The reasons of Progress.
const (
	Complete         Reason = "Complete"
	NotFound         Reason = "NotFound"         // Detail describes the object
	NotObserved      Reason = "NotObserved"      // the controller has not observed the generation Want
	NotUpdated       Reason = "NotUpdated"       // Have of Want Pods have the new version
	OldPods          Reason = "OldPods"          // Have old Pods exist
	NotAvailable     Reason = "NotAvailable"     // Have of Want new Pods are available
	PodsNotReady     Reason = "PodsNotReady"     // Have of Want Pods are Ready
	NoReplicas       Reason = "NoReplicas"       // the object requests no Pods
	NoNode           Reason = "NoNode"           // no Node fits a DaemonSet
	DeadlineExceeded Reason = "DeadlineExceeded" // Detail is the message of the condition
	OnDelete         Reason = "OnDelete"         // the update strategy has no rollout
	NoRollout        Reason = "NoRollout"        // the kind has no rollout
	NotReady         Reason = "NotReady"         // Detail is the condition Ready
	NoCondition      Reason = "NoCondition"      // there is no condition Ready
	Unreadable       Reason = "Unreadable"       // Detail is what cannot be read, with the error
)

// Progress is the rollout progress or the readiness of an object.
type Progress struct {
	// Done reports whether the object is complete. Failed reports whether it can no longer become complete.
	Done, Failed bool
	Reason       Reason
	// Kind and Name identify the object. They are empty if the object does not exist.
	Kind, Name string
	// Have is the current number of Pods, and Want is the required number, unless the comment of Reason defines
	// another meaning.
	Have, Want int64
	Detail     string
}

// String describes the progress in a sentence.
func (p Progress) String() string {
	switch p.Reason {
	case NotFound:
		return p.Detail + " not found"
	case NotObserved:
		return fmt.Sprintf("the %s controller has not observed generation %d yet", p.Kind, p.Want)
	case NotUpdated:
		return fmt.Sprintf("%d of %d Pods have the new version", p.Have, p.Want)
	case OldPods:
		return plain.Count(int(p.Have), "old Pod") + " not deleted yet"
	case NotAvailable:
		return fmt.Sprintf("%d of %d new Pods are available", p.Have, p.Want)
	case PodsNotReady:
		return fmt.Sprintf("%d of %d Pods are Ready", p.Have, p.Want)
	case NoReplicas:
		return fmt.Sprintf("the %s requests 0 Pods; use wait.gone instead", p.Kind)
	case NoNode:
		return fmt.Sprintf("the %s requests 0 Pods, because no Node matches", p.Kind)
	case DeadlineExceeded:
		return fmt.Sprintf("the %s exceeded its progressDeadlineSeconds: %s", p.Kind, p.Detail)
	case OnDelete:
		return fmt.Sprintf("the update strategy of the %s is OnDelete, which has no rollout", p.Kind)
	case NoRollout:
		return fmt.Sprintf("kind %s has no rollout; supported: Deployment, DaemonSet, StatefulSet", p.Kind)
	case NotReady:
		return fmt.Sprintf("%s %s is not Ready %s", p.Kind, p.Name, p.Detail)
	case NoCondition:
		return fmt.Sprintf("%s %s has no condition Ready", p.Kind, p.Name)
	case Unreadable:
		return "cannot decode " + p.Detail
	case Complete:
		switch p.Kind {
		case "Deployment", "DaemonSet":
			return plain.Count(int(p.Want), "available Pod") + " of the new version"
		case "StatefulSet":
			return plain.Count(int(p.Have), "Ready Pod") + fmt.Sprintf(", %d of the new version", p.Want)
		}
		return "Ready"
	}
	return string(p.Reason)
}

func pending[N int32 | int64](reason Reason, have, want N) Progress {
	return Progress{Reason: reason, Have: int64(have), Want: int64(want)}
}

// Rollout returns the rollout progress of a Deployment, DaemonSet or StatefulSet, by the rules of kubectl rollout
// status. A workload that requests 0 Pods is not complete, because its rollout proves nothing.
func Rollout(o *unstructured.Unstructured) Progress {
	p := Progress{Failed: true, Reason: NoRollout}
	switch o.GetKind() {
	case "Deployment":
		p = decodeAndCheck(o, deployment)
	case "DaemonSet":
		p = decodeAndCheck(o, daemonSet)
	case "StatefulSet":
		p = decodeAndCheck(o, statefulSet)
	}
	return p.withObject(o)
}

// withObject sets the kind and the name of the object.
func (p Progress) withObject(o *unstructured.Unstructured) Progress {
	p.Kind, p.Name = o.GetKind(), o.GetName()
	return p
}

func decodeAndCheck[T any](o *unstructured.Unstructured, judge func(*T) Progress) Progress {
	var into T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &into); err != nil {
		return Progress{Failed: true, Reason: Unreadable,
			Detail: fmt.Sprintf("%s %s: %v", o.GetKind(), o.GetName(), err)}
	}
	return judge(&into)
}

func deployment(d *appsv1.Deployment) Progress {
	s, want := d.Status, int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" &&
			s.ObservedGeneration >= d.Generation {
			return Progress{Failed: true, Reason: DeadlineExceeded, Detail: c.Message}
		}
	}
	switch {
	case s.ObservedGeneration < d.Generation:
		return pending(NotObserved, s.ObservedGeneration, d.Generation)
	case s.UpdatedReplicas < want:
		return pending(NotUpdated, s.UpdatedReplicas, want)
	case s.Replicas > s.UpdatedReplicas:
		return pending(OldPods, s.Replicas-s.UpdatedReplicas, 0)
	case s.AvailableReplicas < s.UpdatedReplicas:
		return pending(NotAvailable, s.AvailableReplicas, s.UpdatedReplicas)
	case want == 0:
		return Progress{Reason: NoReplicas}
	}
	return Progress{Done: true, Reason: Complete, Have: int64(want), Want: int64(want)}
}

func daemonSet(d *appsv1.DaemonSet) Progress {
	s := d.Status
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return Progress{Failed: true, Reason: OnDelete}
	}
	switch {
	case s.ObservedGeneration < d.Generation:
		return pending(NotObserved, s.ObservedGeneration, d.Generation)
	case s.DesiredNumberScheduled == 0:
		return Progress{Reason: NoNode}
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return pending(NotUpdated, s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return pending(NotAvailable, s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return Progress{Done: true, Reason: Complete, Have: int64(s.NumberAvailable), Want: int64(s.DesiredNumberScheduled)}
}

func statefulSet(d *appsv1.StatefulSet) Progress {
	s, want := d.Status, int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return Progress{Failed: true, Reason: OnDelete}
	}
	updated := want
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		updated = max(want-*r.Partition, 0)
	}
	switch {
	case s.ObservedGeneration < d.Generation:
		return pending(NotObserved, s.ObservedGeneration, d.Generation)
	case s.ReadyReplicas < want:
		return pending(PodsNotReady, s.ReadyReplicas, want)
	case s.UpdateRevision != s.CurrentRevision && s.UpdatedReplicas < updated:
		return pending(NotUpdated, s.UpdatedReplicas, updated)
	case want == 0:
		return Progress{Reason: NoReplicas}
	}
	return Progress{Done: true, Reason: Complete, Have: int64(s.ReadyReplicas), Want: int64(updated)}
}

// Ready returns the readiness of an object, from its Ready condition. If the condition is not True, Detail contains
// the status, reason and message of the condition.
func Ready(o *unstructured.Unstructured) Progress {
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return Progress{Failed: true, Reason: Unreadable,
			Detail: fmt.Sprintf("the conditions of %s %s: %v", o.GetKind(), o.GetName(), err)}.withObject(o)
	}
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != "Ready" {
			continue
		}
		if c["status"] == "True" {
			return Progress{Done: true, Reason: Complete}.withObject(o)
		}
		text := fmt.Sprintf("(%v)", c["status"])
		for _, field := range []string{"reason", "message"} {
			if v, exists := c[field]; exists && v != "" {
				text += fmt.Sprintf(", %v", v)
			}
		}
		return Progress{Reason: NotReady, Detail: text}.withObject(o)
	}
	return Progress{Reason: NoCondition}.withObject(o)
}
