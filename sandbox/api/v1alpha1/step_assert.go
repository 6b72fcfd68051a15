package v1alpha1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Assert checks objects or an expression until it is so: exactly one of Resource and CEL is set.
type Assert struct {
	// Resource is a part of an object. Every field in it must be the same in the object of its
	// apiVersion, kind and name or labels; elements of a list must be there in this order. Without
	// a name, some object of the labels must match.
	Resource Object `json:"resource,omitempty" jsonschema:"oneof_required=resource"`
	// CEL is a boolean expression over bases, traffic, and the objects of the run's namespace:
	// pods, deployments, replicasets, daemonsets, statefulsets, services, endpointslices, events;
	// and nodes, those of the run's bases.
	CEL string `json:"cel,omitempty" jsonschema:"oneof_required=cel" check:"cel"`
	// Absent: no object matches Resource. Default: false.
	Absent bool `json:"absent,omitempty"`
	// For is how long it must stay so.
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

// Of returns which objects the resource is a part of.
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
		v.forbid(at, "takes either a resource or cel")
		return
	}
	if a.CEL != "" {
		if a.Absent {
			v.forbid(at.Child("absent"), "is for a resource only: in cel write what must not be")
		}
	} else {
		v.part(a.Resource, at.Child("resource"))
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
