package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Wait waits for a condition. Exactly one field is set.
type Wait struct {
	// Rollout waits until the rollout of a Deployment, DaemonSet or StatefulSet is complete, like kubectl rollout
	// status.
	Rollout *Ref `json:"rollout,omitempty" jsonschema:"oneof_required=rollout"`
	// Ready waits until all selected Pods or Nodes have the condition Ready.
	Ready *Ref `json:"ready,omitempty" jsonschema:"oneof_required=ready"`
	// Gone waits until none of the objects exist.
	Gone *Ref `json:"gone,omitempty" jsonschema:"oneof_required=gone"`
	// Quiet is a duration. The step waits until the controllers have written nothing except Leases for this duration.
	Quiet *metav1.Duration `json:"quiet,omitempty" jsonschema:"oneof_required=quiet" check:"positive"`
	// Step is the name of a background step. The wait ends when this step has ended.
	Step string `json:"step,omitempty" jsonschema:"oneof_required=step"`
}

func (w *Wait) title(kind string) string {
	switch {
	case w.Rollout != nil:
		return "wait for rollout of " + w.Rollout.object()
	case w.Ready != nil:
		return "wait until " + w.Ready.object() + " is ready"
	case w.Gone != nil:
		return "wait until " + w.Gone.object() + " is gone"
	case w.Quiet != nil:
		return "wait until controllers write nothing for " + w.Quiet.Duration.String()
	case w.Step != "":
		return "wait for step " + w.Step
	}
	return kind
}

func (w *Wait) refs() (refs []Ref) {
	for _, r := range []*Ref{w.Rollout, w.Ready, w.Gone} {
		if r != nil {
			refs = append(refs, *r)
		}
	}
	return refs
}

func (w *Wait) validate(v *validator, _ *Step, at *field.Path) {
	if !v.exactlyOne(w, at, "wait needs exactly one condition") {
		return
	}
	switch {
	case w.Rollout != nil:
		v.ref(w.Rollout, at.Child("rollout"), severalObjects)
		v.workload(w.Rollout, at.Child("rollout"))
	case w.Ready != nil:
		v.ref(w.Ready, at.Child("ready"), severalObjects)
	case w.Gone != nil:
		v.ref(w.Gone, at.Child("gone"), severalObjects)
	case w.Step != "" && !slices.Contains(v.waitable, w.Step) && !HasExpression(w.Step):
		v.invalid(at.Child("step"), w.Step, "is not the name of an earlier step with background: true")
	}
}

func (w *Wait) disrupts() disruption {
	return disruption{sandbox: w.Quiet != nil, proxy: w.Quiet != nil}
}
