package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

// ComponentAction does something to a component.
type ComponentAction struct {
	// Do is kill (as kill -9), pause (SIGSTOP), resume, or restart; start starts one that was
	// killed.
	Do string `json:"do" jsonschema:"enum=kill,enum=pause,enum=resume,enum=restart,enum=start" need:"one of kill, pause, resume, restart, start"`
	// Replica of the controller, from 1. Default: 1.
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
		v.forbid(at.Child("replica"), "is for the controller only")
	}
}

func (c *ComponentAction) disrupts() disruption { return disruption{sandbox: true} }
