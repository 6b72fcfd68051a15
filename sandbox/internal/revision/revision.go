// Package revision lists the templates that kubectl rollout undo can restore.
package revision

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Annotation is the annotation that contains the revision number of a Deployment or ReplicaSet.
const Annotation = "deployment.kubernetes.io/revision"

// Revision is a current or earlier version of the Pod template of a workload.
type Revision struct {
	Number int64
	// Patch is a patch that restores the Pod template of this revision.
	Patch []byte
	// Type is the type of the patch.
	Type types.PatchType
}

// List returns the revisions of a Deployment, DaemonSet or StatefulSet, sorted by revision number. kind is the kind
// of the workload, in upper or lower case.
func List(ctx context.Context, api kubernetes.Interface, kind string, workload metav1.Object) (list []Revision,
	err error) {
	switch strings.ToLower(kind) {
	case "deployment":
		list, err = replicaSets(ctx, api, workload)
	case "daemonset", "statefulset":
		list, err = controllerRevisions(ctx, api, workload)
	default:
		return nil, fmt.Errorf("only Deployments, DaemonSets and StatefulSets have revisions, not %s", kind)
	}
	slices.SortFunc(list, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	return list, err
}

// replicaSets returns a revision for each ReplicaSet of a Deployment that has a revision number.
func replicaSets(ctx context.Context, api kubernetes.Interface, d metav1.Object) (list []Revision, err error) {
	sets, err := api.AppsV1().ReplicaSets(d.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing ReplicaSets: %w", err)
	}
	for i := range sets.Items {
		rs := &sets.Items[i]
		number, err := strconv.ParseInt(rs.Annotations[Annotation], 10, 64)
		if err != nil || !metav1.IsControlledBy(rs, d) {
			continue
		}
		delete(rs.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		patch, err := json.Marshal(
			[]map[string]any{{"op": "replace", "path": "/spec/template", "value": rs.Spec.Template}})
		if err != nil {
			return nil, fmt.Errorf("encoding the Pod template of ReplicaSet %s: %w", rs.Name, err)
		}
		list = append(list, Revision{number, patch, types.JSONPatchType})
	}
	return list, nil
}

// controllerRevisions returns a revision for each ControllerRevision of a workload. Patch is the patch that the
// ControllerRevision contains.
func controllerRevisions(ctx context.Context, api kubernetes.Interface, w metav1.Object) (list []Revision, err error) {
	revisions, err := api.AppsV1().ControllerRevisions(w.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	for i := range revisions.Items {
		if r := &revisions.Items[i]; metav1.IsControlledBy(r, w) {
			list = append(list, Revision{r.Revision, r.Data.Raw, types.StrategicMergePatchType})
		}
	}
	return list, nil
}
