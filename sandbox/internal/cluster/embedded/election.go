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

// componentSet shows the processes of the control plane. There is no election here, which costs a write
// every two seconds; so part ends those that would have lost it, and starts them again.
type componentSet struct {
	supervise.Processes
	c *ControlPlane

	mu        sync.Mutex
	downSince map[string]time.Time // downSince when a process is away or halted; none = it is there
}

// electedComponents are those that a real cluster elects.
var electedComponents = []string{controllerManager, scheduler}

// Act is that of supervise.Part.
func (p *componentSet) Act(ctx context.Context, name string, action supervise.Action) error {
	deadline := p.c.scaled(renewDeadline)
	switch action {
	case supervise.Kill, supervise.Pause, supervise.Stop:
		err := p.Processes.Act(ctx, name, action)
		if err == nil {
			p.setDown(name)
		}
		return err
	case supervise.Restart: // it is there again at once
		p.takeDowntime(name)
		return p.Processes.Act(ctx, name, action)
	}
	away := p.takeDowntime(name)
	switch {
	case name == apiserver && away > 0 && away+startTime >= deadline:
		lost := p.killElected(ctx)
		err := p.Processes.Act(ctx, name, action)
		for _, name := range lost {
			err = errors.Join(err, p.Processes.Act(ctx, name, supervise.Start))
		}
		return err
	case action == supervise.Resume && slices.Contains(electedComponents, name) && away >= deadline:
		return p.Processes.Act(ctx, name, supervise.Restart)
	}
	return p.Processes.Act(ctx, name, action)
}

func (p *componentSet) setDown(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.downSince == nil {
		p.downSince = map[string]time.Time{}
	}
	if p.downSince[name].IsZero() {
		p.downSince[name] = time.Now()
	}
}

// takeDowntime returns for how long a process was away or halted.
func (p *componentSet) takeDowntime(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, away := p.downSince[name]
	if !away {
		return 0
	}
	delete(p.downSince, name)
	return time.Since(since)
}

// killElected ends those that run, and names them.
func (p *componentSet) killElected(ctx context.Context) (names []string) {
	for _, s := range p.Supervisor.Status(ctx, func(n string) bool { return slices.Contains(electedComponents, n) }) {
		if s.State == supervise.Running && p.Supervisor.Kill(s.Name) == nil {
			names = append(names, s.Name)
		}
	}
	return names
}
