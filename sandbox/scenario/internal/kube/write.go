package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Apply creates or updates an object in the namespace of the run, like kubectl apply --server-side --force-conflicts,
// and returns the written object. It rejects objects outside the scope of the run, see OutsideRun.
func (c *Client) Apply(ctx context.Context, o *unstructured.Unstructured, namespace string) (ResourceKind,
	*unstructured.Unstructured, error) {
	k, err := c.FindKind(o.GetAPIVersion(), o.GetKind())
	if err != nil {
		return ResourceKind{}, nil, err
	}
	if o.GetName() == "" {
		return ResourceKind{}, nil, fmt.Errorf("an object of kind %s has no name; set metadata.name", o.GetKind())
	}
	if outside := OutsideRun(o, !k.Namespaced, namespace); outside != "" {
		return ResourceKind{}, nil, errors.New(outside)
	}
	o = o.DeepCopy()
	if k.Namespaced {
		o.SetNamespace(namespace)
	} else if err := c.setOwner(ctx, o, namespace); err != nil {
		return ResourceKind{}, nil, err
	}
	written, err := c.Resource(k, o.GetNamespace()).Apply(ctx, o.GetName(), o,
		metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return ResourceKind{}, nil, fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), explainTypeError(err))
	}
	return k, written, nil
}

// setOwner makes the namespace of the run the owner of a cluster-scoped object, so that Kubernetes deletes the object
// when the namespace is deleted.
func (c *Client) setOwner(ctx context.Context, o *unstructured.Unstructured, namespace string) error {
	n, err := c.Typed.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: n.Name, UID: n.UID}})
	return nil
}

// mistyped matches the error that the API server returns for a number or a boolean in a string field.
var mistyped = regexp.MustCompile(`\.(\S+): expected string, got &value\.valueUnstructured\{Value:([^}]*)\}`)

// explainTypeError replaces an API server error that names Go types with an error for users. It returns all other
// errors unchanged.
func explainTypeError(err error) error {
	if found := mistyped.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("%s must be a string, but is %s; put the value in quotes where it is defined", found[1],
			found[2])
	}
	return err
}

var patchTypes = map[string]types.PatchType{
	"merge": types.MergePatchType, "strategic": types.StrategicMergePatchType, "json": types.JSONPatchType,
}

// Patch patches an object and returns the patched object. patchType is merge, strategic or json.
func (c *Client) Patch(ctx context.Context, k ResourceKind, namespace, name, patchType string,
	patch any) (*unstructured.Unstructured, error) {
	t, known := patchTypes[patchType]
	if !known {
		return nil, fmt.Errorf("unknown patch type %q; supported: merge, strategic, json", patchType)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of %s %s: %w", k.Kind, name, err)
	}
	o, err := c.Resource(k, namespace).Patch(ctx, name, t, body, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return nil, fmt.Errorf("patching %s %s: %w", k.Kind, name, err)
	}
	return o, nil
}

// Scale sets the replicas of a workload. The returned object is of kind Scale, and has the name and the resource
// version of the workload.
func (c *Client) Scale(ctx context.Context, k ResourceKind, namespace, name string,
	replicas int64) (*unstructured.Unstructured,
	error) {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": replicas}})
	if err != nil {
		return nil, fmt.Errorf("encoding the scale of %s %s: %w", k.Kind, name, err)
	}
	o, err := c.Resource(k, namespace).Patch(ctx, name, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager}, "scale")
	if err != nil {
		return nil, fmt.Errorf("scaling %s %s: %w", k.Kind, name, err)
	}
	return o, nil
}

// Delete deletes an object if it still has the same UID. If graceSeconds is nil, the grace period of the object
// applies.
func (c *Client) Delete(ctx context.Context, k ResourceKind, o *unstructured.Unstructured, graceSeconds *int64) error {
	uid, background := o.GetUID(), metav1.DeletePropagationBackground
	err := c.Resource(k, o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{
		GracePeriodSeconds: graceSeconds, PropagationPolicy: &background,
		Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil {
		return fmt.Errorf("deleting %s %s: %w", k.Kind, o.GetName(), err)
	}
	return nil
}
