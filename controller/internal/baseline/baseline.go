// Package baseline selects what a starting base must install: the modules that every base of its
// kind has. Those are the modules of peer Deployments and of DaemonSets whose Pods may run on the
// base (Module Controller V2 documents 5.2 and 5.4). It only reads; sending the answer is the
// tunnels' work.
//
// The Pods of those workloads are scheduled to the new base at about the same time and ask for the
// same modules, so installing a module that the base has already must count as a success.
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

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Options says where workloads come from.
type Options struct {
	// Deployments and DaemonSets list the workloads of the cluster. Both are required; wait for
	// their informers to sync before the first Select.
	Deployments appslisters.DeploymentLister
	DaemonSets  appslisters.DaemonSetLister
	// Env is the environment of the controller. A Deployment that is labelled with another one is
	// ignored.
	Env string
	// AddTolerationFor is the environment whose toleration the controller adds to Pods that name no
	// environment, so that such Deployments reach a base too; empty if it adds none. It is no help
	// to a DaemonSet, which makes Pods by its template alone. A cluster with several environments
	// should name the environment in each workload.
	AddTolerationFor string
	// ReplicasFollow says that the controller sets the replicas of peer Deployments. Zero replicas
	// of such a Deployment only mean that it has had no base so far; without ReplicasFollow they
	// mean that nobody wants the module. Default false.
	ReplicasFollow bool
}

// Selector selects baselines. It may be used concurrently.
type Selector struct{ o Options }

// New returns a Selector.
func New(o Options) *Selector { return &Selector{o} }

// Select returns the modules for a base, ordered by name; none is an empty slice. node need not
// exist: its labels and taints are those that the base's Node has or will have, and whether it is
// cordoned.
//
// Of several versions of one module the newest counts, by version number, and among equals the one
// of the youngest workload. A paused Deployment is left out, because which of its versions a base
// should have is not in its template; so are workloads that are being deleted, want no replicas, or
// could have no Pod on the base, and containers that a Pod could not install (workload.Check). A
// cordoned base gets what DaemonSets want: their Pods come all the same, and those of Deployments
// that are there ask by themselves.
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
			c := candidate{workload.Of(&template.ObjectMeta, container), object}
			if best, ok := newest[c.Name]; !ok || compare(c, best) > 0 {
				newest[c.Name] = c
			}
		}
	}
	for _, d := range deployments {
		if !workload.IsPeer(d, s.o.Env) || d.Spec.Paused || !s.wanted(d) || !makesModules(d, d.Spec.Template) {
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

// wanted reports whether a peer Deployment wants replicas at all.
func (s *Selector) wanted(d *appsv1.Deployment) bool {
	if s.o.ReplicasFollow && !workload.KeepsReplicas(d) {
		return true
	}
	return d.Spec.Replicas == nil || *d.Spec.Replicas > 0
}

// makesModules reports whether the Pods of a workload are modules, and it stays.
func makesModules(object metav1.Object, template corev1.PodTemplateSpec) bool {
	return object.GetDeletionTimestamp() == nil && workload.IsModule(template.Labels)
}
