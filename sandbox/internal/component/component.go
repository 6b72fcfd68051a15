package component

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Component is one part of a sandbox: a process, a part of the daemon (with the PID of the daemon), or a Pod.
type Component struct {
	Name string `json:"name"`
	// State is running, paused or exited.
	State string `json:"state"`
	// Reason is why it is not Ready.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// Pod is the name of its Pod; empty for other components.
	Pod string `json:"pod,omitempty"`
	// StartedAt is the start of its last run.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Exit is how it ended; empty while it runs.
	Exit string `json:"exit,omitempty"`
	// RSS is resident memory in bytes, CPU the CPU time in nanoseconds; 0 for a part of the daemon.
	RSS uint64        `json:"rss,omitempty"`
	CPU time.Duration `json:"cpu,omitempty"`
	// Log is the path of its log.
	Log string `json:"log,omitempty"`
	// Metrics is the URL of its metrics, for a controller of ours on this machine.
	Metrics string `json:"metrics,omitempty"`
}

// Action on a component.
type Action string

// The actions.
const (
	Kill    Action = "kill"
	Pause   Action = "pause"
	Resume  Action = "resume"
	Restart Action = "restart"
	Stop    Action = "stop"
	Start   Action = "start"
)

// Actions lists all actions.
var Actions = []Action{Kill, Pause, Resume, Restart, Stop, Start}

// ErrUnknown is returned, wrapped, by Part.Act for a name that is none of its components.
var ErrUnknown = errors.New("no such component")

// RefusedError is returned, wrapped, by Part.Act for an action that its component cannot do now, or
// ever.
type RefusedError struct {
	// Message says what is refused and why, in one sentence.
	Message string
}

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

// Refuse makes a RefusedError of a format and its values.
func Refuse(format string, values ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, values...)}
}

// Part is a part of a sandbox as seen by `status` and `component`. Its methods may be called
// concurrently.
type Part interface {
	// Components lists its components in a fixed order. It blocks for at most one second.
	Components(ctx context.Context) []Component
	// Act performs an action on a component. Start and restart block until it is ready. The error may wrap ErrUnknown or
	// a *RefusedError.
	Act(ctx context.Context, name string, action Action) error
	// Down names the components that another `up` has to start again.
	Down(ctx context.Context) []string
}
