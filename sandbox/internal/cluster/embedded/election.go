package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// renewDeadline is how long an API server outage must last before, in a real cluster, the controller manager and the
// scheduler lose their leader election and restart. Without this restart, the controller manager would mark all Nodes
// as unreachable.
const renewDeadline = 10 * time.Second

// startTime is the minimum time that the API server takes to start, at any time scale. No leader election Lease can
// be renewed during this time.
const startTime = 2 * time.Second

// componentSet controls the control plane processes. They run without leader election, because leader election would
// cost a write every two seconds. After an outage, componentSet restarts the processes that would have lost their
// leader election.
type componentSet struct {
	supervise.Processes
	c *ControlPlane

	mu        sync.Mutex
	downSince map[string]time.Time // start of the downtime of each stopped or paused process
}

// electedComponents are the components that use leader election in a real cluster.
var electedComponents = []string{controllerManager, scheduler}

// Act implements supervise.ComponentSet.
func (p *componentSet) Act(ctx context.Context, name string, action supervise.Action) error {
	deadline := p.c.scaled(renewDeadline)
	switch action {
	case supervise.Kill, supervise.Pause, supervise.Stop:
		err := p.Processes.Act(ctx, name, action)
		if err == nil {
			p.setDown(name)
		}
		return err
	case supervise.Restart: // the process is down only briefly
		p.takeDowntime(name)
		return p.Processes.Act(ctx, name, action)
	}
	downtime := p.takeDowntime(name)
	switch {
	case name == apiserver && downtime > 0 && downtime+startTime >= deadline:
		killed := p.killElected(ctx)
		err := p.Processes.Act(ctx, name, action)
		for _, name := range killed {
			err = errors.Join(err, p.Processes.Act(ctx, name, supervise.Start))
		}
		return err
	case action == supervise.Resume && slices.Contains(electedComponents, name) && downtime >= deadline:
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

// takeDowntime returns how long a process has been stopped or paused, and clears the recorded time. It returns 0 for
// a running process.
func (p *componentSet) takeDowntime(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, down := p.downSince[name]
	if !down {
		return 0
	}
	delete(p.downSince, name)
	return time.Since(since)
}

// killElected kills the running components that use leader election in a real cluster, and returns their names.
func (p *componentSet) killElected(ctx context.Context) (names []string) {
	for _, s := range p.Supervisor.Status(ctx, func(n string) bool { return slices.Contains(electedComponents, n) }) {
		if s.State == supervise.Running && p.Supervisor.Kill(s.Name) == nil {
			names = append(names, s.Name)
		}
	}
	return names
}
