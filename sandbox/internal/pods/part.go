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

// Components are the Pods.
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

// Act kills a Pod, which comes back by itself, or waits until it is back.
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
		return supervise.Refuse(
			"%s cannot be told to %s: it is a Pod, which Kubernetes starts again; kill it, or start it, which waits until it is back", name, action)
	}
}

// ToStart is empty: Kubernetes starts a Pod again.
func (p *Pods) ToStart(context.Context) []string { return nil }
