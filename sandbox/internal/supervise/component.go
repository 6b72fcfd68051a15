package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// State is the state of a component.
type State = events.ComponentState

// The states of a component.
const (
	Running  = events.ComponentRunning
	Paused   = events.ComponentPaused
	Stopping = events.ComponentStopping // only in a StateChange
	Exited   = events.ComponentExited
)

// Component is the status of one component of a sandbox. A component is a process, a Pod, or a part of the daemon,
// which has the PID of the daemon.
type Component struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Ready reports whether the component is ready. Reason is the reason why it is not ready.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	PID    int    `json:"pid,omitempty"`
	// Pod is the name of the component's Pod; empty if the component is not a Pod.
	Pod string `json:"pod,omitempty"`
	// StartedAt is the time at which the component was last started.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Exit describes how the component exited, such as "exit status 1"; empty while the component is running.
	Exit string `json:"exit,omitempty"`
	// RSS is the resident memory in bytes. CPU is the CPU time in nanoseconds. Both are 0 for a part of the daemon,
	// and after the component has exited.
	RSS uint64        `json:"rss,omitempty"`
	CPU time.Duration `json:"cpu,omitempty"`
	// Log is the path of the component's log file.
	Log string `json:"log,omitempty"`
	// Metrics is the URL of the metrics of a bundled controller that runs on this machine; otherwise it is empty.
	Metrics string `json:"metrics,omitempty"`
}

// Action is an action on a component, such as stopping it.
type Action string

// The values of Action.
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

// ErrUnknown is returned, wrapped, if a component does not exist or was never started.
var ErrUnknown = errors.New("no such component")

// RefusedError is returned by ComponentSet.Act, wrapped, if a component does not support an action. Its text is the
// message for the user.
type RefusedError string

// Error returns the message for the user.
func (e RefusedError) Error() string { return string(e) }

// Refuse returns a RefusedError with a formatted message.
func Refuse(format string, values ...any) error { return RefusedError(fmt.Sprintf(format, values...)) }

// ComponentSet is a set of components. The command status lists them, and the command component performs actions on
// them. Its methods may be called concurrently.
type ComponentSet interface {
	// Components returns the status of all components in a fixed order. It blocks for at most one second.
	Components(ctx context.Context) []Component
	// Act performs an action on a component. The actions Start and Restart block until the component is ready. The
	// error may wrap ErrUnknown or a RefusedError.
	Act(ctx context.Context, name string, action Action) error
	// ToStart returns the names of the components that the next up command must start.
	ToStart(ctx context.Context) []string
}

// Processes is a ComponentSet of processes that a Supervisor runs.
type Processes struct {
	// Supervisor is the supervisor that runs the processes. Required.
	Supervisor *Supervisor
	// Contains reports whether the process with the given name belongs to the set. Required.
	Contains func(name string) bool
}

var _ ComponentSet = Processes{}

// Components implements ComponentSet.
func (p Processes) Components(ctx context.Context) []Component {
	return p.Supervisor.Status(ctx, p.Contains)
}

// ToStart returns the names of the processes that have exited.
func (p Processes) ToStart(ctx context.Context) []string {
	var names []string
	for _, c := range p.Components(ctx) {
		if c.State == Exited {
			names = append(names, c.Name)
		}
	}
	return names
}

// Act implements ComponentSet. The action Start does nothing if the process is already running.
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
