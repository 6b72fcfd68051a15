package kind

import (
	"context"
	"fmt"
	"strings"
)

// KillContainer ends a container of a node as kill -9 would; its kubelet sees it as it sees a
// crash. One that has ended is fine.
func (p *Provider) KillContainer(ctx context.Context, node, id string) error {
	err := p.runTask(ctx, node, "kill", "--signal", "SIGKILL", id)
	if err != nil && strings.Contains(err.Error(), "not found") { // of its process, or of the whole task
		return nil
	}
	return err
}

// PauseContainer freezes all processes of a container of a node until ResumeContainer, or until
// somebody kills it.
func (p *Provider) PauseContainer(ctx context.Context, node, id string) error {
	return p.runTask(ctx, node, "pause", id)
}

// ResumeContainer lets a frozen container go on.
func (p *Provider) ResumeContainer(ctx context.Context, node, id string) error {
	return p.runTask(ctx, node, "resume", id)
}

// runTask tells the container runtime of a node what to do with the processes of a container.
func (p *Provider) runTask(ctx context.Context, node string, args ...string) error {
	if _, err := p.engine.Run(ctx,
		append([]string{"exec", node, "ctr", "--namespace", "k8s.io", "task"}, args...)...); err != nil {
		return fmt.Errorf("the container runtime of node %s: %w", node, err)
	}
	return nil
}
