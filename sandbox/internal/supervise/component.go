package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// State of a component.
type State = events.ComponentState

// The states of a component.
const (
	Running = events.ComponentRunning
	Paused  = events.ComponentPaused
	Exited  = events.ComponentExited
)

// Component is the state of one part of a sandbox: a process, a part of the daemon (with the PID of the daemon), or a
// Pod.
type Component struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason is why it is not Ready.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// Pod is the name of its Pod; empty for other components.
	Pod string `json:"pod,omitempty"`
	// StartedAt is the start of its last run.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Exit is how it ended, such as "exit status 1"; empty while it runs.
	Exit string `json:"exit,omitempty"`
	// RSS is resident memory in bytes, CPU the CPU time in nanoseconds; 0 for a part of the daemon, and after the exit.
	RSS uint64        `json:"rss,omitempty"`
	CPU time.Duration `json:"cpu,omitempty"`
	// Log is the path of its log.
	Log string `json:"log,omitempty"`
	// Metrics is the URL of the metrics of a bundled controller on this machine.
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

// ErrUnknown is returned, wrapped, for a component that does not exist or was never started.
var ErrUnknown = errors.New("no such component")

// RefusedError is returned, wrapped, by Part.Act for an action that the component cannot perform. It is the reason as a
// sentence.
type RefusedError string

// Error returns the message.
func (e RefusedError) Error() string { return string(e) }

// Refuse makes a RefusedError from a format and its values.
func Refuse(format string, values ...any) error { return RefusedError(fmt.Sprintf(format, values...)) }

// ComponentSet is a part of a sandbox with components that `status` shows and `component` acts on. Its methods may be called
// concurrently.
type ComponentSet interface {
	// Components lists its components in a fixed order. It blocks for at most one second.
	Components(ctx context.Context) []Component
	// Act performs an action on a component. Start and restart block until it is ready. The error may wrap ErrUnknown or
	// a RefusedError.
	Act(ctx context.Context, name string, action Action) error
	// ToStart names the components that another `up` has to start again.
	ToStart(ctx context.Context) []string
}

// Processes is a Part whose components are processes of a supervisor.
type Processes struct {
	// Supervisor that runs them. Required.
	Supervisor *Supervisor
	// Contains reports whether a process of the supervisor belongs to the part. Required.
	Contains func(name string) bool
}

var _ ComponentSet = Processes{}

// Components implements Part.
func (p Processes) Components(ctx context.Context) []Component {
	return p.Supervisor.Status(ctx, p.Contains)
}

// ToStart names the processes that have exited.
func (p Processes) ToStart(ctx context.Context) []string {
	var names []string
	for _, c := range p.Components(ctx) {
		if c.State == Exited {
			names = append(names, c.Name)
		}
	}
	return names
}

// Act implements Part. A start of a process that runs does nothing.
func (p Processes) Act(ctx context.Context, name string, action Action) error {
	_, r, err := p.Supervisor.find(name)
	if err != nil || !p.Contains(name) {
		return fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	switch action {
	case Kill:
		return p.Supervisor.Kill(name)
	case Pause:
		return p.Supervisor.Pause(name)
	case Resume:
		return p.Supervisor.Resume(name)
	case Stop:
		return p.Supervisor.Stop(ctx, name)
	case Start:
		if !r.ended() {
			return nil
		}
	}
	if err := p.Supervisor.Restart(ctx, name); err != nil {
		return err
	}
	return p.Supervisor.WaitReady(ctx, name)
}
