package component

import (
	"context"
	"errors"
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Processes is a Part whose components are processes of a supervisor.
type Processes struct {
	// Supervisor that runs them. Required.
	Supervisor *supervise.Supervisor
	// Mine tells whether a process of the supervisor, by its name, belongs to the part. Required.
	Mine func(name string) bool
}

var _ Part = Processes{}

// Components is that of Part.
func (p Processes) Components(ctx context.Context) []Component {
	var all []Component
	for _, s := range p.Supervisor.Status(ctx, p.Mine) {
		all = append(all, Component{
			Name: s.Name, State: string(s.State), Ready: s.Ready, Reason: s.Reason, PID: s.PID, StartedAt: s.StartedAt,
			Exit: s.ExitError, RSS: s.RSS, CPU: s.CPU, Log: s.LogFile, Metrics: s.Metrics,
		})
	}
	return all
}

// Down names those that have exited.
func (p Processes) Down(ctx context.Context) []string {
	var names []string
	for _, s := range p.Supervisor.Status(ctx, p.Mine) {
		if s.State == supervise.Exited {
			names = append(names, s.Name)
		}
	}
	return names
}

// Act is that of Part. Only stop and start look at the process first: that asks for its readiness, which one
// that hangs holds up for a second.
func (p Processes) Act(ctx context.Context, name string, action Action) error {
	err := fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	if p.Mine(name) {
		err = p.act(ctx, name, action)
	}
	if errors.Is(err, supervise.ErrUnknown) {
		return fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	return err
}

func (p Processes) act(ctx context.Context, name string, action Action) error {
	switch action {
	case Kill:
		return p.Supervisor.Kill(name)
	case Pause:
		return p.Supervisor.Pause(name)
	case Resume:
		return p.Supervisor.Resume(name)
	case Stop:
		if _, known := p.state(ctx, name); !known {
			return supervise.ErrUnknown
		}
		return p.Supervisor.Stop(ctx, name)
	case Start:
		if state, known := p.state(ctx, name); known && state != supervise.Exited {
			return nil
		}
	}
	if err := p.Supervisor.Restart(ctx, name); err != nil {
		return err
	}
	return p.Supervisor.WaitReady(ctx, name)
}

func (p Processes) state(ctx context.Context, name string) (supervise.State, bool) {
	all := p.Supervisor.Status(ctx, func(n string) bool { return n == name && p.Mine(n) })
	if len(all) == 0 {
		return "", false
	}
	return all[0].State, true
}
