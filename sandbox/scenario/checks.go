package scenario

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/timeline"
)

// checks are the built-in checks of a run.
type checks struct{}

func newChecks(*v1alpha1.Scenario) *checks { return &checks{} }

// observe hears of every event.
func (c *checks) observe(timeline.Event) {}

// verdicts puts what the checks have found into the report.
func (e *execution) verdicts() {}
