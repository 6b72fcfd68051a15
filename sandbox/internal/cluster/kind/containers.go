package kind

import (
	"context"
	"fmt"
	"strings"
)

// KillContainer kills a container with SIGKILL. The kubelet handles this like a crash. If the container has already
// exited, KillContainer returns nil. Deleting the Pod would be different from a crash: the controller would stop
// gracefully, and the new Pod would have another name.
func (p *Provider) KillContainer(ctx context.Context, node, id string) error {
	err := p.runTask(ctx, node, "kill", "--signal", "SIGKILL", id)
	if err != nil && strings.Contains(err.Error(), "not found") { // the process or the task has ended
		return nil
	}
	return err
}

// PauseContainer suspends all processes of a container until ResumeContainer.
func (p *Provider) PauseContainer(ctx context.Context, node, id string) error {
	return p.runTask(ctx, node, "pause", id)
}

// ResumeContainer resumes a paused container.
func (p *Provider) ResumeContainer(ctx context.Context, node, id string) error {
	return p.runTask(ctx, node, "resume", id)
}

// runTask runs a command of ctr task (containerd) on a node.
func (p *Provider) runTask(ctx context.Context, node string, args ...string) error {
	if _, err := p.engine.Run(ctx,
		append([]string{"exec", node, "ctr", "--namespace", "k8s.io", "task"}, args...)...); err != nil {
		return fmt.Errorf("running ctr task %s on node %s: %w", args[0], node, err)
	}
	return nil
}
