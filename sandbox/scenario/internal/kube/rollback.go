package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const revisionAnnotation = "deployment.kubernetes.io/revision"

type revision struct {
	number int64
	// patch takes the workload back to it.
	patch []byte
	kind  types.PatchType
}

// Rollback takes a Deployment, DaemonSet or StatefulSet back to a revision, as kubectl rollout undo
// does; 0 is the one before the present one. It returns the number of that revision, and the
// workload as it is then.
func (c *Client) Rollback(ctx context.Context, k Kind, namespace, name string, to int64) (int64, *unstructured.Unstructured, error) {
	revisions, err := c.revisions(ctx, k, namespace, name)
	if err != nil {
		return 0, nil, fmt.Errorf("rolling back %s %s: %w", k.Kind, name, err)
	}
	slices.SortFunc(revisions, func(a, b revision) int { return int(a.number - b.number) })
	at := len(revisions) - 2
	if to > 0 {
		at = slices.IndexFunc(revisions, func(r revision) bool { return r.number == to })
	}
	if at < 0 {
		numbers := make([]int64, len(revisions))
		for i, r := range revisions {
			numbers[i] = r.number
		}
		return 0, nil, fmt.Errorf("rolling back %s %s: there is no such revision, it has %v", k.Kind, name, numbers)
	}
	r := revisions[at]
	o, err := c.On(k, namespace).Patch(ctx, name, r.kind, r.patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return 0, nil, fmt.Errorf("rolling back %s %s: %w", k.Kind, name, err)
	}
	return r.number, o, nil
}

func (c *Client) revisions(ctx context.Context, k Kind, namespace, name string) ([]revision, error) {
	o, err := c.On(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	switch k.Kind {
	case "Deployment":
		return c.deploymentRevisions(ctx, namespace, o.GetUID())
	case "DaemonSet", "StatefulSet":
		return c.controllerRevisions(ctx, namespace, o.GetUID())
	default:
		return nil, fmt.Errorf("only a Deployment, DaemonSet or StatefulSet has revisions")
	}
}

// deploymentRevisions returns the templates of the ReplicaSets of a Deployment.
func (c *Client) deploymentRevisions(ctx context.Context, namespace string, owner types.UID) ([]revision, error) {
	list, err := c.Typed.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing ReplicaSets: %w", err)
	}
	var found []revision
	for _, rs := range list.Items {
		number, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
		if !owned(rs.ObjectMeta, owner) || err != nil {
			continue // of another, or not numbered yet
		}
		template := rs.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		patch, err := replaceTemplate(template)
		if err != nil {
			return nil, err
		}
		found = append(found, revision{number, patch, types.JSONPatchType})
	}
	return found, nil
}

func replaceTemplate(t *corev1.PodTemplateSpec) ([]byte, error) {
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": t}})
	if err != nil {
		return nil, fmt.Errorf("writing a template: %w", err)
	}
	return patch, nil
}

// controllerRevisions returns the ControllerRevisions of a DaemonSet or StatefulSet. Their data are patches.
func (c *Client) controllerRevisions(ctx context.Context, namespace string, owner types.UID) ([]revision, error) {
	list, err := c.Typed.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	var found []revision
	for _, r := range list.Items {
		if owned(r.ObjectMeta, owner) {
			found = append(found, revision{r.Revision, r.Data.Raw, types.StrategicMergePatchType})
		}
	}
	return found, nil
}

func owned(o metav1.ObjectMeta, by types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(&o)
	return owner != nil && owner.UID == by
}
