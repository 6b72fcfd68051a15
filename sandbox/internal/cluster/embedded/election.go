package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// renewDeadline is how long the controller manager and the scheduler of a real cluster go on without
// the API server: then they have lost their leader election and end, and their kubelet starts them
// anew. One that went on would, at its first sight, take all Nodes for unreachable.
const renewDeadline = 10 * time.Second

// part shows the processes of the control plane. There is no election here, which costs a write
// every two seconds; so part ends those that would have lost it, and starts them again.
type part struct {
	component.Processes
	c *ControlPlane

	mu    sync.Mutex
	since time.Time // since when the API server is away; zero = it is there
}

// Act is that of component.Part.
func (p *part) Act(ctx context.Context, name string, action component.Action) error {
	if name != apiserver {
		return p.Processes.Act(ctx, name, action)
	}
	switch action {
	case component.Kill, component.Pause, component.Stop:
		err := p.Processes.Act(ctx, name, action)
		if err == nil {
			p.gone()
		}
		return err
	case component.Restart: // it is there again at once
		return p.Processes.Act(ctx, name, action)
	}
	var lost []string
	if p.back() >= p.c.period(renewDeadline) {
		lost = p.endElected(ctx)
	}
	err := p.Processes.Act(ctx, name, action)
	for _, name := range lost {
		err = errors.Join(err, p.Processes.Act(ctx, name, component.Start))
	}
	return err
}

func (p *part) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
}

// back returns for how long the API server was away.
func (p *part) back() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return 0
	}
	away := time.Since(p.since)
	p.since = time.Time{}
	return away
}

// endElected ends those that run, and names them.
func (p *part) endElected(ctx context.Context) (names []string) {
	for _, s := range p.Supervisor.Status(ctx, func(n string) bool { return slices.Contains([]string{controllerManager, scheduler}, n) }) {
		if s.State == supervise.Running && p.Supervisor.Kill(s.Name) == nil {
			names = append(names, s.Name)
		}
	}
	return names
}
