// Package baseline selects the modules that a starting base must install: those of peer Deployments and DaemonSets
// whose Pods may run on the base (Module Controller V2 documents 5.2 and 5.4).
//
// The Pods of these workloads are scheduled at about the same time and request the same modules. Therefore, a repeated
// install must be treated as a success.
package baseline

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Options configure a Selector.
type Options struct {
	// Deployments and DaemonSets list the workloads in the cluster. Their informers must have synchronized. Required.
	Deployments appslisters.DeploymentLister
	DaemonSets  appslisters.DaemonSetLister
	// Env is the environment of the controller. Deployments with the label of another environment are ignored.
	Env string
	// AddTolerationFor is the environment whose toleration the controller adds to Pods that tolerate no environment;
	// empty disables adding it. It has no effect on DaemonSets, because they create no Pods for Nodes whose taints
	// their Pod template does not tolerate.
	AddTolerationFor string
}

// Selector selects the baseline of a base. Its methods are safe for concurrent use.
type Selector struct{ o Options }

// New returns a Selector.
func New(o Options) *Selector { return &Selector{o} }

// Select returns the modules in the baseline of a base, sorted by name, never nil. node is the Node that the base has
// or will have.
//
// If there are several versions of a module, Select chooses the highest version number, and for equal numbers the
// newest workload. It ignores paused Deployments, because their template does not show which version a base should
// have. It also ignores workloads that are being deleted, have no replicas, or cannot run on the base. A cordoned
// base gets only the modules of DaemonSets.
func (s *Selector) Select(node *corev1.Node) ([]arklet.Module, error) {
	return s.selectFrom(node, func(metav1.Object) bool { return true })
}

// Settled returns the modules that Select returns, without the modules of workloads that are being rolled out.
func (s *Selector) Settled(node *corev1.Node) ([]arklet.Module, error) {
	return s.selectFrom(node, func(owner metav1.Object) bool {
		switch w := owner.(type) {
		case *appsv1.Deployment:
			return w.Status.ObservedGeneration >= w.Generation && w.Status.UpdatedReplicas == w.Status.Replicas
		case *appsv1.DaemonSet:
			return w.Status.ObservedGeneration >= w.Generation &&
				w.Status.UpdatedNumberScheduled == w.Status.CurrentNumberScheduled
		}
		return false
	})
}

// selectFrom returns the modules in the baseline of a base whose workload is accepted.
func (s *Selector) selectFrom(node *corev1.Node, accept func(owner metav1.Object) bool) ([]arklet.Module, error) {
	deployments, err := s.o.Deployments.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing Deployments for the baseline: %w", err)
	}
	daemonSets, err := s.o.DaemonSets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing DaemonSets for the baseline: %w", err)
	}

	newest := map[string]candidate{}
	offer := func(object metav1.Object, template corev1.PodTemplateSpec) {
		for _, container := range template.Spec.Containers {
			if workload.Check(&template.ObjectMeta, container) != nil {
				continue
			}
			c := candidate{workload.ModuleOf(&template.ObjectMeta, container), object}
			if best, ok := newest[c.Name]; !ok || compare(c, best) > 0 {
				newest[c.Name] = c
			}
		}
	}
	for _, d := range deployments {
		if !workload.IsPeer(d, s.o.Env) || d.Spec.Paused || !wantsReplicas(d) || !createsModules(d, d.Spec.Template) {
			continue
		}
		if p := workload.NewPlacement(d.Spec.Template.Spec, s.o.AddTolerationFor); p.Fits(node) && !p.Cordoned(node) {
			offer(d, d.Spec.Template)
		}
	}
	for _, d := range daemonSets {
		if createsModules(d, d.Spec.Template) && workload.NewPlacement(d.Spec.Template.Spec, "").Fits(node) {
			offer(d, d.Spec.Template)
		}
	}

	modules := make([]arklet.Module, 0, len(newest))
	for _, c := range newest {
		if accept(c.owner) {
			modules = append(modules, c.Module)
		}
	}
	slices.SortFunc(modules, func(a, b arklet.Module) int { return cmp.Compare(a.Name, b.Name) })
	return modules, nil
}

// wantsReplicas reports whether a peer Deployment should have replicas. If the controller sets the replicas,
// wantsReplicas ignores the value 0, because it only means that no base has matched yet. If the user sets the
// replicas, 0 means that no replicas are wanted.
func wantsReplicas(d *appsv1.Deployment) bool {
	return !workload.KeepsReplicas(d) || ptr.Deref(d.Spec.Replicas, 1) > 0
}

func createsModules(object metav1.Object, template corev1.PodTemplateSpec) bool {
	return object.GetDeletionTimestamp() == nil && workload.IsModule(template.Labels)
}
