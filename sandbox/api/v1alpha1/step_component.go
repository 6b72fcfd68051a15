package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

// ComponentAction kills, pauses, resumes, restarts or starts a component.
type ComponentAction struct {
	// Do is the action: kill (SIGKILL), pause (SIGSTOP), resume, restart, or start. The action start starts a killed
	// component.
	Do string `json:"do" jsonschema:"enum=kill,enum=pause,enum=resume,enum=restart,enum=start" need:"set kill, pause, resume, restart or start"`
	// Replica is the number of the controller replica that the action affects, starting at 1. Default: 1.
	Replica *int `json:"replica,omitempty"`
}

func (c *ComponentAction) title(kind string) string { return c.Do + " " + kind }

func (c *ComponentAction) setDefaults(s *Step, _ *ScenarioSpec) {
	if s.Controller != nil && c.Replica == nil {
		first := 1
		c.Replica = &first
	}
}

func (c *ComponentAction) validate(v *validator, s *Step, at *field.Path) {
	switch {
	case s.Controller != nil:
		v.replica(c.Replica, at)
	case c.Replica != nil:
		v.forbid(at.Child("replica"), "is supported for controller only")
	}
}

func (c *ComponentAction) disrupts() disruption { return disruption{sandbox: true} }
