package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Sleep waits for a fixed time, or until an expression is true. It also succeeds if the expression stays false.
type Sleep struct {
	// For is the maximum duration of the sleep.
	For metav1.Duration `json:"for" check:"positive"`
	// OrUntil is a CEL expression, as in assert.cel, that ends the sleep when it is true. Default: none.
	OrUntil string `json:"orUntil,omitempty" check:"cel"`
	// Reason explains why the step cannot wait for a condition instead.
	Reason string `json:"reason" need:"give the reason for a sleep; waiting for a condition is faster and more reliable"`
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
