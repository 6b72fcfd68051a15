package pods

import (
	"context"
	"fmt"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

var _ supervise.ComponentSet = (*Pods)(nil)

func (p *Pods) list() []*pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// Components implements supervise.ComponentSet. It returns one component for each Pod.
func (p *Pods) Components(context.Context) []supervise.Component {
	var all []supervise.Component
	for _, x := range p.list() {
		x.mu.Lock()
		c := supervise.Component{Name: x.name, Pod: x.name, State: supervise.Running, Ready: true, StartedAt: x.since}
		if x.conn == nil {
			c.State, c.Ready, c.Reason = supervise.Exited, false, "its bases are down: "+x.downReason.Error()
		}
		x.mu.Unlock()
		all = append(all, c)
	}
	return all
}

// Act implements supervise.ComponentSet. The action kill deletes a Pod, which Kubernetes then recreates. The action
// start blocks until a Pod is available.
func (p *Pods) Act(ctx context.Context, name string, action supervise.Action) error {
	all := p.list()
	i := slices.IndexFunc(all, func(x *pod) bool { return x.name == name })
	if i < 0 {
		return fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	}
	switch action {
	case supervise.Kill:
		return all[i].kill(ctx)
	case supervise.Start:
		_, err := all[i].waitConnected(ctx)
		return err
	default:
		return supervise.Refuse("cannot %s %s: it is a Pod, which Kubernetes restarts; to stop it, use kill; "+
			"to wait until it is available, use start", action, name)
	}
}

// ToStart returns nil, because Kubernetes restarts Pods.
func (p *Pods) ToStart(context.Context) []string { return nil }
