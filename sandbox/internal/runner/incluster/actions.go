package incluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// removePoll is the interval between checks whether the Deployments have been removed.
const removePoll = 100 * time.Millisecond

// Components implements supervise.ComponentSet.
func (c *Runner) Components(context.Context) []supervise.Component {
	var all []supervise.Component
	for _, x := range c.Replicas() {
		all = append(all, supervise.Component{
			Name: runner.ComponentName(x.Number), State: x.State, Ready: x.Ready, Reason: x.Reason, Pod: x.Pod,
			StartedAt: x.Since, Log: c.o.Log,
		})
	}
	return all
}

// ToStart returns the names of the controllers that are neither ready nor paused.
func (c *Runner) ToStart(context.Context) []string {
	var names []string
	for _, x := range c.Replicas() {
		if !x.Ready && x.State != supervise.Paused {
			names = append(names, runner.ComponentName(x.Number))
		}
	}
	return names
}

// Act implements supervise.ComponentSet. name is the component name of a controller, or the name of its Pod.
func (c *Runner) Act(ctx context.Context, name string, action supervise.Action) error {
	all := c.Replicas()
	i := slices.IndexFunc(all,
		func(x Replica) bool { return name == runner.ComponentName(x.Number) || name != "" && name == x.Pod })
	if i < 0 {
		return fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	}
	x := all[i]
	switch action {
	case supervise.Kill:
		return c.kill(ctx, x)
	case supervise.Pause:
		return c.pause(ctx, x)
	case supervise.Resume:
		return c.resume(ctx, x)
	case supervise.Stop:
		return c.stop(ctx, x)
	case supervise.Start:
		return c.startAndWait(ctx, x)
	default:
		return c.restart(ctx, x)
	}
}

// kill kills the process of a controller with SIGKILL. The kubelet then restarts the container. kill does nothing if
// the controller is not running.
func (c *Runner) kill(ctx context.Context, x Replica) error {
	switch {
	case x.State == supervise.Exited:
		return nil
	case c.inExistingCluster():
		return refuseNodeAction(x, supervise.Kill)
	}
	if err := c.o.Local.Nodes.KillContainer(ctx, x.node, x.container); err != nil {
		return fmt.Errorf("killing %s: %w", runner.ComponentName(x.Number), err)
	}
	c.setMark(x.container, markKilled)
	return nil
}

// pause suspends the process of a controller. The probes of its Pod then fail, and the kubelet kills the container
// after half a minute.
func (c *Runner) pause(ctx context.Context, x Replica) error {
	switch {
	case x.State == supervise.Exited:
		return fmt.Errorf("pausing %s: it is not running", runner.ComponentName(x.Number))
	case x.State == supervise.Paused:
		return nil
	case c.inExistingCluster():
		return refuseNodeAction(x, supervise.Pause)
	}
	if err := c.o.Local.Nodes.PauseContainer(ctx, x.node, x.container); err != nil {
		return fmt.Errorf("pausing %s: %w", runner.ComponentName(x.Number), err)
	}
	c.setMark(x.container, markPaused)
	return nil
}

// refuseNodeAction returns the error for an action on a container in an existing cluster, whose nodes the sandbox
// does not control.
func refuseNodeAction(x Replica, action supervise.Action) error {
	return supervise.Refuse("cannot %s %s: the nodes of this cluster do not belong to the sandbox; use stop, start or "+
		"restart", action, runner.ComponentName(x.Number))
}

func (c *Runner) resume(ctx context.Context, x Replica) error {
	if x.State != supervise.Paused {
		return nil
	}
	if err := c.o.Local.Nodes.ResumeContainer(ctx, x.node, x.container); err != nil {
		return fmt.Errorf("resuming %s: %w", runner.ComponentName(x.Number), err)
	}
	c.setMark(x.container, 0)
	return nil
}

// setMark records m as the last action on a container. If m is 0, it deletes the record.
func (c *Runner) setMark(container string, m containerMark) {
	c.mu.Lock()
	for _, p := range podsOf(c.pods) {
		if id := statusOf(p).ContainerID; containerID(id) == container {
			if m == 0 {
				delete(c.marks, id)
			} else {
				c.marks[id] = m
			}
		}
	}
	c.mu.Unlock()
	c.refresh()
}

// stop scales the Deployment of a controller to 0 and blocks until its Pod has terminated.
func (c *Runner) stop(ctx context.Context, x Replica) error {
	if x.stopped {
		return nil
	}
	if err := c.resume(ctx, x); err != nil { // a paused process cannot shut down gracefully
		return err
	}
	if err := c.scale(ctx, x.Number, true); err != nil {
		return err
	}
	return c.waitUntil(ctx, func() (string, error) {
		if p := c.replicas[x.Number-1].Pod; p != "" {
			return fmt.Sprintf("Pod %s of %s has not terminated", p, runner.ComponentName(x.Number)), nil
		}
		return "", nil
	})
}

// startAndWait starts a stopped or killed controller and blocks until it is ready. If the container stays in restart
// back-off for too long, startAndWait replaces the Pod.
func (c *Runner) startAndWait(ctx context.Context, x Replica) error {
	if x.stopped {
		if err := c.scale(ctx, x.Number, false); err != nil {
			return err
		}
	}
	return c.waitUntil(ctx, func() (string, error) {
		if now := c.replicas[x.Number-1]; now.State != supervise.Paused {
			return c.pendingReplica(now)
		}
		return "", nil
	})
}

// restart replaces the Pod of a controller and blocks until the new Pod is ready.
func (c *Runner) restart(ctx context.Context, x Replica) error {
	if err := c.resume(ctx, x); err != nil { // see stop
		return err
	}
	if x.Pod != "" {
		if err := c.deletePod(ctx, x.Pod, gracePeriod); err != nil {
			return err
		}
		if err := c.waitUntil(ctx, func() (string, error) {
			if c.replicas[x.Number-1].Pod == x.Pod {
				return fmt.Sprintf("Pod %s of %s has not been replaced", x.Pod, runner.ComponentName(x.Number)), nil
			}
			return "", nil
		}); err != nil {
			return err
		}
	}
	return c.startAndWait(ctx, x)
}

// scale scales the Deployment of a controller to 0 if stop is true, and otherwise to 1.
func (c *Runner) scale(ctx context.Context, number int, stop bool) error {
	c.mu.Lock()
	if stop {
		c.stopped[number] = true
	} else {
		delete(c.stopped, number)
	}
	c.mu.Unlock()
	c.refresh()
	n := 1
	if stop {
		n = 0
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	deployment := runner.ComponentName(number)
	_, err := c.client.AppsV1().Deployments(namespace).Patch(ctx, deployment, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("scaling Deployment %s to %d: %w", deployment, n, err)
	}
	return nil
}

// deletePod deletes a Pod with a grace period in seconds. It returns nil if the Pod does not exist.
func (c *Runner) deletePod(ctx context.Context, pod string, grace int64) error {
	err := c.client.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s: %w", pod, err)
	}
	return nil
}

// removeAll removes all controllers of the sandbox and blocks until their Pods have terminated.
func (c *Runner) removeAll(ctx context.Context) error {
	err := c.removeDeployments(ctx, 0)
	if err == nil {
		err = wait.PollUntilContextCancel(ctx, removePoll, true, func(ctx context.Context) (bool, error) {
			left, err := c.client.AppsV1().Deployments(namespace).List(ctx,
				metav1.ListOptions{LabelSelector: c.deployments(0)})
			return err == nil && len(left.Items) == 0, err
		})
	}
	if err != nil {
		return fmt.Errorf("removing the controllers of an earlier run from the cluster: %w", err)
	}
	return nil
}

// removeDeployments deletes the Deployments of all controllers whose number is greater than above.
func (c *Runner) removeDeployments(ctx context.Context, above int) error {
	foreground := metav1.DeletePropagationForeground // deletes the Pods before the Deployment
	err := c.client.AppsV1().Deployments(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &foreground}, metav1.ListOptions{LabelSelector: c.deployments(above)})
	if err != nil {
		return fmt.Errorf("deleting the Deployments of controllers: %w", err)
	}
	return nil
}

// deployments returns a label selector for the Deployments of all controllers whose number is greater than above.
func (c *Runner) deployments(above int) string {
	s := cluster.ManagedBy + "=" + cluster.MarkName + "," + numberLabel
	if c.o.Owner != "" {
		s += "," + cluster.SandboxLabel + "=" + c.o.Owner
	}
	for number := 1; number <= above; number++ {
		s += fmt.Sprintf(",%s!=%d", numberLabel, number)
	}
	return s
}
