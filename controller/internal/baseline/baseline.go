// Package baseline selects what a starting base must install: the modules of peer Deployments and DaemonSets whose
// Pods may run on the base (Module Controller V2 documents 5.2 and 5.4).
//
// The Pods of these workloads are scheduled at about the same time and request the same modules, so a repeated
// install must count as a success.
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
	// Deployments and DaemonSets list the workloads of the cluster. Their informers must have synced. Required.
	Deployments appslisters.DeploymentLister
	DaemonSets  appslisters.DaemonSetLister
	// Env is the environment of the controller. Deployments with the label of another one are ignored.
	Env string
	// AddTolerationFor is the environment whose toleration the controller adds to Pods without one; empty for none.
	// It has no effect for DaemonSets, which create Pods by their template.
	AddTolerationFor string
}

// Selector selects baselines. Its methods may be called concurrently.
type Selector struct{ o Options }

// New returns a Selector.
func New(o Options) *Selector { return &Selector{o} }

// Select returns the modules for a base, sorted by name, never nil. node is the Node that the base has or will have.
//
// Of several versions of a module it selects the newest version number, then the youngest workload. It ignores paused
// Deployments, because their template does not show which version a base should have, and workloads that are being
// deleted, want no replicas, or have no place on the base. A cordoned base gets the modules of DaemonSets only.
func (s *Selector) Select(node *corev1.Node) ([]arklet.Module, error) {
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
		if !workload.IsPeer(d, s.o.Env) || d.Spec.Paused || !wanted(d) || !makesModules(d, d.Spec.Template) {
			continue
		}
		if p := workload.NewPlacement(d.Spec.Template.Spec, s.o.AddTolerationFor); p.Fits(node) && !p.Cordoned(node) {
			offer(d, d.Spec.Template)
		}
	}
	for _, d := range daemonSets {
		if makesModules(d, d.Spec.Template) && workload.NewPlacement(d.Spec.Template.Spec, "").Fits(node) {
			offer(d, d.Spec.Template)
		}
	}

	modules := make([]arklet.Module, 0, len(newest))
	for _, c := range newest {
		modules = append(modules, c.Module)
	}
	slices.SortFunc(modules, func(a, b arklet.Module) int { return cmp.Compare(a.Name, b.Name) })
	return modules, nil
}

// wanted reports whether a peer Deployment wants replicas. Its replicas are 0 before the first base, unless its user
// sets them.
func wanted(d *appsv1.Deployment) bool {
	return !workload.KeepsReplicas(d) || ptr.Deref(d.Spec.Replicas, 1) > 0
}

func makesModules(object metav1.Object, template corev1.PodTemplateSpec) bool {
	return object.GetDeletionTimestamp() == nil && workload.IsModule(template.Labels)
}
