package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// renewDeadline is the time without the API server after which the controller manager and the scheduler of a real
// cluster lose their leader election and restart. Without the restart, the controller manager would mark all Nodes
// unreachable.
const renewDeadline = 10 * time.Second

// startTime is what the API server needs at least until it answers, at any speed. Till then nobody can
// renew anything either.
const startTime = 2 * time.Second

// part shows the processes of the control plane. There is no election here, which costs a write
// every two seconds; so part ends those that would have lost it, and starts them again.
type part struct {
	supervise.Processes
	c *ControlPlane

	mu    sync.Mutex
	since map[string]time.Time // since when a process is away or halted; none = it is there
}

// elected are those that a real cluster elects.
var elected = []string{controllerManager, scheduler}

// Act is that of supervise.Part.
func (p *part) Act(ctx context.Context, name string, action supervise.Action) error {
	deadline := p.c.period(renewDeadline)
	switch action {
	case supervise.Kill, supervise.Pause, supervise.Stop:
		err := p.Processes.Act(ctx, name, action)
		if err == nil {
			p.gone(name)
		}
		return err
	case supervise.Restart: // it is there again at once
		p.back(name)
		return p.Processes.Act(ctx, name, action)
	}
	away := p.back(name)
	switch {
	case name == apiserver && away > 0 && away+startTime >= deadline:
		lost := p.endElected(ctx)
		err := p.Processes.Act(ctx, name, action)
		for _, name := range lost {
			err = errors.Join(err, p.Processes.Act(ctx, name, supervise.Start))
		}
		return err
	case action == supervise.Resume && slices.Contains(elected, name) && away >= deadline:
		return p.Processes.Act(ctx, name, supervise.Restart)
	}
	return p.Processes.Act(ctx, name, action)
}

func (p *part) gone(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil {
		p.since = map[string]time.Time{}
	}
	if p.since[name].IsZero() {
		p.since[name] = time.Now()
	}
}

// back returns for how long a process was away or halted.
func (p *part) back(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, away := p.since[name]
	if !away {
		return 0
	}
	delete(p.since, name)
	return time.Since(since)
}

// endElected ends those that run, and names them.
func (p *part) endElected(ctx context.Context) (names []string) {
	for _, s := range p.Supervisor.Status(ctx, func(n string) bool { return slices.Contains(elected, n) }) {
		if s.State == supervise.Running && p.Supervisor.Kill(s.Name) == nil {
			names = append(names, s.Name)
		}
	}
	return names
}
