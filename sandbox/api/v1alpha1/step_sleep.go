package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sleep does nothing for a time, or until something is seen. That it was not seen is no failure.
type Sleep struct {
	// For is how long, at most.
	For metav1.Duration `json:"for" check:"positive"`
	// OrUntil is a CEL expression as in Assert that ends the sleep. Default: it lasts its time.
	OrUntil string `json:"orUntil,omitempty" check:"cel"`
	// Reason says why nothing else will do.
	Reason string `json:"reason" need:"say why nothing else will do: waiting for what is meant is faster and surer"`
}

func (s *Sleep) title(string) string { return "sleep " + s.For.Duration.String() }

func (s *Sleep) setDefaults(step *Step, spec *ScenarioSpec) {
	if step.Timeout == nil {
		step.Timeout = &metav1.Duration{Duration: spec.StepTimeout.Duration + s.For.Duration}
	}
}

func (s *Sleep) validate(v *validator, step *Step, at *field.Path) {
	if step.Timeout != nil && step.Timeout.Duration < s.For.Duration {
		v.invalid(at.Child("for"), s.For.Duration.String(), "is longer than the timeout of the step, %s",
			step.Timeout.Duration)
	}
}

func (s *Sleep) atSpeed(speed time.Duration) { s.For.Duration /= speed }
