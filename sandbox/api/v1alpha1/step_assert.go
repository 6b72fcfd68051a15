package v1alpha1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Assert waits until objects match or an expression is true. Exactly one of Resource and CEL is set.
type Assert struct {
	// Resource is a partial object. An object matches if it has the same apiVersion, kind and name, and equal values
	// for all given fields; lists must contain the given elements in the same order. Without a name, at least one
	// object with the given labels must match.
	Resource Object `json:"resource,omitempty" jsonschema:"oneof_required=resource"`
	// CEL is a boolean expression. It can use bases, traffic, the nodes of the run's bases, and the objects in the
	// namespace of the run: pods, deployments, replicasets, daemonsets, statefulsets, services, endpointslices and
	// events.
	CEL string `json:"cel,omitempty" jsonschema:"oneof_required=cel" check:"cel"`
	// Absent requires that no object matches Resource. Default: false.
	Absent bool `json:"absent,omitempty"`
	// For is how long the condition must hold.
	For *metav1.Duration `json:"for,omitempty" jsonschema:"default=0s" check:"notNegative"`
}

func (a *Assert) title(string) string {
	switch {
	case a.CEL != "":
		return "assert " + short(a.CEL)
	case a.Absent:
		return "assert no " + a.Resource.title()
	}
	return "assert " + a.Resource.title()
}

// Of returns a reference to the objects that the resource selects.
func (a *Assert) Of() Ref {
	u := a.Resource.Unstructured()
	r := Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), Namespace: u.GetNamespace()}
	if r.Name == "" {
		r.Labels = u.GetLabels()
	}
	return r
}

func (a *Assert) refs() []Ref {
	if a.Resource == nil {
		return nil
	}
	return []Ref{a.Of()}
}

func (a *Assert) validate(v *validator, s *Step, at *field.Path) {
	if (len(a.Resource) == 0) == (strings.TrimSpace(a.CEL) == "") {
		v.forbid(at, "must have either a resource or cel")
		return
	}
	if a.CEL != "" {
		if a.Absent {
			v.forbid(at.Child("absent"), "requires a resource; in cel, negate the condition")
		}
	} else {
		v.checkPartialObject(a.Resource, at.Child("resource"))
	}
	if a.For != nil && s.Timeout != nil && a.For.Duration > 0 && a.For.Duration >= s.Timeout.Duration {
		v.invalid(at.Child("for"), a.For.Duration.String(), "must be shorter than the timeout of the step, %s",
			s.Timeout.Duration)
	}
}

func (a *Assert) atSpeed(speed time.Duration) {
	if a.For != nil {
		a.For.Duration /= speed
	}
}
