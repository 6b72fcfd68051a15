package moduleview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// reconcile writes the Module objects for the containers of a Pod.
func (v *Syncer) reconcile(ctx context.Context, key types.NamespacedName) (requeueAfter time.Duration, err error) {
	pod, ok := v.o.Pods.Get(key)
	if !ok || !v.o.Owns(pod.Spec.NodeName) {
		return 0, nil
	}
	node, _ := v.o.Nodes.Get(pod.Spec.NodeName) // nil if the Node does not exist
	modules, _ := workload.Modules(pod.Spec)
	for _, container := range modules {
		want := desiredModule(pod, container, node)
		want.Status.Records = toTheSecond(
			v.o.Records(pod.Spec.NodeName, want.Spec.Module.Name, want.Spec.Module.Version))
		err := v.write(ctx, want)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // the cache is out of date
			return retryDelay, nil
		}
		if err != nil {
			return 0, fmt.Errorf("writing Module %s/%s: %w", want.Namespace, want.Name, err)
		}
	}
	return 0, nil
}

// write creates a Module object, or updates the parts of the object that have changed.
func (v *Syncer) write(ctx context.Context, want *Module) error {
	object, ok, err := v.modules.GetStore().GetByKey(want.Namespace + "/" + want.Name)
	if err != nil {
		return err
	}
	var have *Module
	if !ok {
		have, err = v.send(ctx, want, create)
		if err != nil {
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			return err
		}
	} else {
		have = object.(*Module)
	}

	keepForeignMetadata(want, have)
	want.ResourceVersion = have.ResourceVersion
	if !equality.Semantic.DeepEqual(want.Spec, have.Spec) || !maps.Equal(want.Labels, have.Labels) ||
		!equality.Semantic.DeepEqual(want.OwnerReferences, have.OwnerReferences) {
		updated, err := v.send(ctx, want, update)
		if err != nil {
			return err
		}
		want.ResourceVersion, have = updated.ResourceVersion, updated
	}
	if !equality.Semantic.DeepEqual(want.Status, have.Status) {
		_, err = v.send(ctx, want, updateStatus)
	}
	return err
}

// toTheSecond returns a copy of records whose times are truncated to the precision of the API server.
func toTheSecond(records []Record) []Record {
	out := slices.Clone(records)
	for i := range out {
		if out[i].ChangeTime != nil {
			out[i].ChangeTime = ptr.To(out[i].ChangeTime.Rfc3339Copy())
		}
	}
	return out
}

// keepForeignMetadata copies from existing to want the labels, annotations and finalizers that other clients have set.
func keepForeignMetadata(want, existing *Module) {
	others := maps.Clone(existing.Labels)
	for _, own := range []string{labels.BaseIP, labels.BaseInstance, labels.ModuleName, labels.ModuleVersion} {
		delete(others, own)
	}
	maps.Copy(want.Labels, others)
	want.Annotations, want.Finalizers = existing.Annotations, existing.Finalizers
}

const fieldManager = "module-controller"

type writeKind int

const (
	create writeKind = iota
	update
	updateStatus
)

// send performs one write, and returns the Module as stored by the API server.
func (v *Syncer) send(ctx context.Context, m *Module, r writeKind) (*Module, error) {
	if err := v.limit.Wait(ctx); err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: fields}
	client := v.o.Client.Resource(Resource).Namespace(m.Namespace)
	switch r {
	case create:
		out, err = client.Create(ctx, out, metav1.CreateOptions{FieldManager: fieldManager})
	case update:
		out, err = client.Update(ctx, out, metav1.UpdateOptions{FieldManager: fieldManager})
	default:
		out, err = client.UpdateStatus(ctx, out, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return nil, err
	}
	written, err := toModule(out)
	if err != nil {
		return nil, err
	}
	return written.(*Module), nil
}
