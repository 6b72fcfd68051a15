package board

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

// The kinds of workloads in rows and actions.
const (
	kindDeployment  = "deployment"
	kindDaemonSet   = "daemonset"
	kindStatefulSet = "statefulset"
)

// isModule reports whether Pods with the template t are module Pods.
func isModule(t corev1.PodTemplateSpec) bool {
	return labels.Value(t.Labels, labels.Component) == labels.Module
}

func templateModules(t corev1.PodTemplateSpec) []events.ModuleRef {
	return events.PodStateOf(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}).Modules
}

// status sets the rollout state of a workload. Stuck takes precedence over paused, and paused over rolling.
func (row *WorkloadRow) status(rolling, paused bool) {
	row.Paused = paused
	switch {
	case row.Stuck != "":
		row.State = WorkloadStuck
	case paused:
		row.State = WorkloadPaused
	case rolling:
		row.State = WorkloadRolling
	case row.Ready >= row.Desired:
		row.State = WorkloadReady
	default:
		row.State = WorkloadWaiting
	}
}

// strategyOf describes a rollout strategy, including the maximum surge and the maximum unavailability of a rolling
// update.
func strategyOf(strategy string, surge, unavailable *intstr.IntOrString) string {
	var limits []string
	if surge != nil {
		limits = append(limits, "+"+surge.String())
	}
	if unavailable != nil {
		limits = append(limits, "−"+unavailable.String())
	}
	return events.Join(", ", strategy, strings.Join(limits, " "))
}

func deploymentRow(d *appsv1.Deployment) WorkloadRow {
	s := d.Status
	row := WorkloadRow{
		Kind: kindDeployment, Namespace: d.Namespace, Name: d.Name, Modules: templateModules(d.Spec.Template),
		Desired: int(ptr.Deref(d.Spec.Replicas, 1)),
		Updated: int(s.UpdatedReplicas), Ready: int(s.ReadyReplicas), Available: int(s.AvailableReplicas),
		Total:       int(s.Replicas),
		Unavailable: int(s.UnavailableReplicas), Strategy: string(d.Spec.Strategy.Type), Revision: numberOf(d),
		Peer: labels.Value(d.Labels, labels.Strategy) == labels.Peer,
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		row.Strategy = strategyOf(row.Strategy, r.MaxSurge, r.MaxUnavailable)
	}
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			row.Stuck = cmp.Or(c.Message, c.Reason)
		}
	}
	row.status(s.ObservedGeneration < d.Generation || row.Updated < row.Desired || row.Total > row.Updated ||
		row.Available < row.Updated, d.Spec.Paused)
	return row
}

func daemonSetRow(d *appsv1.DaemonSet) WorkloadRow {
	s := d.Status
	row := WorkloadRow{
		Kind: kindDaemonSet, Namespace: d.Namespace, Name: d.Name, Modules: templateModules(d.Spec.Template),
		Desired: int(s.DesiredNumberScheduled),
		Updated: int(s.UpdatedNumberScheduled), Ready: int(s.NumberReady), Available: int(s.NumberAvailable),
		Total:       int(s.CurrentNumberScheduled),
		Unavailable: int(s.NumberUnavailable), Strategy: string(d.Spec.UpdateStrategy.Type),
	}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		row.Strategy = strategyOf(row.Strategy, r.MaxSurge, r.MaxUnavailable)
	}
	row.status(s.ObservedGeneration < d.Generation || row.Updated < row.Desired || row.Available < row.Desired, false)
	return row
}

func statefulSetRow(d *appsv1.StatefulSet) WorkloadRow {
	s := d.Status
	row := WorkloadRow{
		Kind: kindStatefulSet, Namespace: d.Namespace, Name: d.Name, Modules: templateModules(d.Spec.Template),
		Desired: int(ptr.Deref(d.Spec.Replicas, 1)),
		Updated: int(s.UpdatedReplicas), Ready: int(s.ReadyReplicas), Available: int(s.AvailableReplicas),
		Total:    int(s.Replicas),
		Strategy: string(d.Spec.UpdateStrategy.Type),
	}
	row.Unavailable = max(row.Desired-row.Available, 0)
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		row.Partition = int(ptr.Deref(r.Partition, 0))
		row.Strategy = strategyOf(row.Strategy, nil, r.MaxUnavailable)
	}
	if row.Partition > 0 {
		row.Strategy = fmt.Sprintf("%s, partition %d", row.Strategy, row.Partition)
	}
	// A rollout that the partition holds back is paused.
	wanted := max(row.Desired-row.Partition, 0)
	rolling := s.ObservedGeneration < d.Generation || row.Updated < wanted || row.Available < row.Desired
	row.status(rolling, !rolling && s.CurrentRevision != s.UpdateRevision && row.Updated < row.Desired)
	return row
}

// numberOf returns the revision number of a Deployment or ReplicaSet, or 0 if the object has no revision number.
func numberOf(o metav1.Object) int {
	n, _ := strconv.Atoi(o.GetAnnotations()[revision.Annotation]) // 0 without the annotation
	return n
}

// workloadChanged adds, updates or removes the row of a workload. It removes the row if the workload was deleted or
// its Pod template no longer contains modules.
func (w *boardState) workloadChanged(row WorkloadRow, module, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := row.Kind + "/" + row.Namespace + "/" + row.Name
	if gone || !module {
		if _, known := w.workloads[key]; !known {
			return
		}
		delete(w.workloads, key)
	} else {
		if row.Kind != kindDeployment {
			row.Revision = w.newestRevision(key)
		}
		w.workloads[key] = row
	}
	w.mark(kindWorkload, key)
}

// replicaSetRevision returns the Deployment revision that is stored in a ReplicaSet.
func replicaSetRevision(o *appsv1.ReplicaSet) RevisionRow {
	return RevisionRow{Workload: workloadOfRevision(o), Number: numberOf(o),
		Hash:    o.Labels[appsv1.DefaultDeploymentUniqueLabelKey],
		Modules: templateModules(o.Spec.Template), Created: millis(o.CreationTimestamp.Time)}
}

// controllerRevision returns the DaemonSet or StatefulSet revision that is stored in a ControllerRevision. The label
// of a DaemonSet Pod contains the hash of the revision, and the label of a StatefulSet Pod contains the name of the
// revision.
func controllerRevision(o *appsv1.ControllerRevision, t corev1.PodTemplateSpec) RevisionRow {
	return RevisionRow{Workload: workloadOfRevision(o), Number: int(o.Revision),
		Hash:    cmp.Or(o.Labels[appsv1.ControllerRevisionHashLabelKey], o.Name),
		Modules: templateModules(t), Created: millis(o.CreationTimestamp.Time)}
}

// templateOf returns the Pod template in a ControllerRevision. It returns an empty template if there is none.
func templateOf(o *appsv1.ControllerRevision) corev1.PodTemplateSpec {
	var d struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	_ = json.Unmarshal(o.Data.Raw, &d) // a ControllerRevision of another controller has no template
	return d.Spec.Template
}

// workloadOfRevision returns the key of the workload that owns a revision. It returns an empty string if the revision
// has no owner.
func workloadOfRevision(o metav1.Object) string {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return ""
	}
	return strings.ToLower(owner.Kind) + "/" + o.GetNamespace() + "/" + owner.Name
}

// revisionOfPod returns the RevisionRow.Hash of a Pod's revision. It reads the hash from the labels of the Pod.
func revisionOfPod(of map[string]string) string {
	return cmp.Or(of[appsv1.DefaultDeploymentUniqueLabelKey], of[appsv1.ControllerRevisionHashLabelKey])
}

// revisionChanged adds, updates or removes a revision of a workload. It ignores revisions without modules.
func (w *boardState) revisionChanged(name string, row RevisionRow, module, gone bool) {
	if row.Workload == "" || !module {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := row.Workload + "/" + name
	if gone {
		delete(w.revisions, key)
	} else {
		w.revisions[key] = row
	}
	w.mark(kindRevision, key)
	if of, known := w.workloads[row.Workload]; known && of.Kind != kindDeployment && row.Number > of.Revision {
		of.Revision = row.Number
		w.workloads[row.Workload] = of
		w.mark(kindWorkload, row.Workload)
	}
}

// newestRevision returns the highest revision number of a workload. It returns 0 if the number is unknown. The caller
// must hold w.mu.
func (w *boardState) newestRevision(workload string) (number int) {
	for _, r := range w.revisions {
		if r.Workload == workload {
			number = max(number, r.Number)
		}
	}
	return number
}
