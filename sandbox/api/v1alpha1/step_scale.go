package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Scale sets the number of replicas of a workload.
type Scale struct {
	Ref `json:",inline"`
	// Replicas is the number of replicas. It can be a CEL expression.
	Replicas Any `json:"replicas"`
}

func (s *Scale) title(string) string { return fmt.Sprintf("scale %s to %v", s.object(), s.Replicas) }

func (s *Scale) validate(v *validator, _ *Step, at *field.Path) {
	v.ref(&s.Ref, at, oneObject)
	at = at.Child("replicas")
	switch n := s.Replicas.(type) {
	case nil:
		v.add(field.Required(at, "set the number of replicas"))
	case int64:
		if n < 0 {
			v.invalid(at, n, "must not be negative")
		}
	default:
		if f, isFloat := n.(float64); isFloat && f >= 0 && f == float64(int64(f)) {
			return
		}
		if !unevaluated(n) {
			v.invalid(at, n, "must be a whole number")
		}
	}
}
