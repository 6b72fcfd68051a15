package incluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// removePoll is between two looks whether a Deployment is gone.
	removePoll = 100 * time.Millisecond
)

// Find returns the number of a controller by its name or that of its Pod. Supervise.ErrUnknown,
// wrapped, says that there is none.
func (c *Controller) Find(component string) (number int, err error) {
	for _, r := range c.Replicas() {
		if component == runner.NameOf(r.Number) || component == r.Pod {
			return r.Number, nil
		}
	}
	return 0, fmt.Errorf("%s: %w", component, supervise.ErrUnknown)
}

// replica returns how a controller is now.
func (c *Controller) replica(number int) (Replica, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < 1 || number > len(c.replicas) {
		return Replica{}, fmt.Errorf("%s: %w", runner.NameOf(number), supervise.ErrUnknown)
	}
	return c.replicas[number-1], nil
}

// Kill ends a controller's process as kill -9 would, in its Pod, where the kubelet starts it again.
// One that does not run is fine.
func (c *Controller) Kill(ctx context.Context, number int) error {
	r, err := c.replica(number)
	if err != nil || r.State == supervise.Exited {
		return err
	}
	if c.shared() {
		return notOurs(runner.NameOf(number), component.Kill)
	}
	if err := c.o.Containers.KillContainer(ctx, r.node, r.container); err != nil {
		return fmt.Errorf("killing %s: %w", runner.NameOf(number), err)
	}
	c.mark(r.container, markKilled)
	return nil
}

// Pause freezes a controller. Its probes fail then, so that its kubelet kills it after half a minute.
func (c *Controller) Pause(ctx context.Context, number int) error {
	r, err := c.replica(number)
	switch {
	case err != nil:
		return err
	case r.State == supervise.Exited:
		return fmt.Errorf("pausing %s: it does not run", runner.NameOf(number))
	case r.State == supervise.Paused:
		return nil
	case c.shared():
		return notOurs(runner.NameOf(number), component.Pause)
	}
	if err := c.o.Containers.PauseContainer(ctx, r.node, r.container); err != nil {
		return fmt.Errorf("pausing %s: %w", runner.NameOf(number), err)
	}
	c.mark(r.container, markPaused)
	return nil
}

// Resume lets a controller go on; one that is not paused, or that its kubelet has started again
// meanwhile, is fine.
func (c *Controller) Resume(ctx context.Context, number int) error {
	r, err := c.replica(number)
	if err != nil || r.State != supervise.Paused {
		return err
	}
	if err := c.o.Containers.ResumeContainer(ctx, r.node, r.container); err != nil {
		return fmt.Errorf("resuming %s: %w", runner.NameOf(number), err)
	}
	c.mark(r.container, 0)
	return nil
}

// mark notes what was done to a container; 0 = nothing any more.
func (c *Controller) mark(container string, m mark) {
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

// Stop scales the Deployment of a controller to 0, and blocks until its Pod has ended. It returns nil if the
// controller is stopped already.
func (c *Controller) Stop(ctx context.Context, number int) error {
	r, err := c.replica(number)
	if err != nil || r.stopped {
		return err
	}
	if err := c.Resume(ctx, number); err != nil { // so that it can end well
		return err
	}
	if err := c.scale(ctx, number, true); err != nil {
		return err
	}
	return c.until(ctx, func() (string, error) {
		if p := c.replicas[number-1].Pod; p != "" {
			return fmt.Sprintf("Pod %s of %s has not ended", p, runner.NameOf(number)), nil
		}
		return "", nil
	})
}

// StartAgain brings back a controller that was stopped or killed, and blocks until it is ready. It
// does not wait for the kubelet, which starts a container that ends often later and later: its Pod
// is replaced. One that runs is fine.
func (c *Controller) StartAgain(ctx context.Context, number int) error {
	r, err := c.replica(number)
	if err != nil {
		return err
	}
	if r.stopped {
		if err := c.scale(ctx, number, false); err != nil {
			return err
		}
	}
	return c.until(ctx, func() (string, error) {
		if r := c.replicas[number-1]; r.State != supervise.Paused {
			return c.ready(r)
		}
		return "", nil
	})
}

// Restart replaces the Pod of a controller and blocks until the new one is ready.
func (c *Controller) Restart(ctx context.Context, number int) error {
	if err := c.Resume(ctx, number); err != nil { // as in Stop
		return err
	}
	r, err := c.replica(number)
	if err != nil {
		return err
	}
	if r.Pod != "" {
		if err := c.deletePod(ctx, r.Pod, gracePeriod); err != nil {
			return err
		}
	}
	if err := c.until(ctx, func() (string, error) {
		if c.replicas[number-1].Pod == r.Pod && r.Pod != "" {
			return fmt.Sprintf("Pod %s of %s has not been replaced", r.Pod, runner.NameOf(number)), nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	return c.StartAgain(ctx, number)
}

// scale stops a controller or brings it back.
func (c *Controller) scale(ctx context.Context, number int, stop bool) error {
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
	deployment := runner.NameOf(number)
	_, err := c.client.AppsV1().Deployments(namespace).Patch(ctx, deployment, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("scaling Deployment %s to %d: %w", deployment, n, err)
	}
	return nil
}

// deletePod deletes a Pod with some seconds to end; one that is gone is fine.
func (c *Controller) deletePod(ctx context.Context, pod string, grace int64) error {
	err := c.client.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s: %w", pod, err)
	}
	return nil
}

// Remove removes the controllers that an earlier sandbox has left in its cluster, and blocks until their Pods
// have ended. Other controllers stay.
func (c *Controller) Remove(ctx context.Context) error {
	err := c.removeDeployments(ctx, 0)
	if err == nil {
		err = wait.PollUntilContextCancel(ctx, removePoll, true, func(ctx context.Context) (bool, error) {
			left, err := c.client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: c.deployments(0)})
			return err == nil && len(left.Items) == 0, err
		})
	}
	if err != nil {
		return fmt.Errorf("removing the controller of an earlier sandbox from the cluster: %w", err)
	}
	return nil
}

// removeDeployments removes the Deployments of the controllers above a number.
func (c *Controller) removeDeployments(ctx context.Context, above int) error {
	foreground := metav1.DeletePropagationForeground // the Pods before the Deployment
	err := c.client.AppsV1().Deployments(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &foreground}, metav1.ListOptions{LabelSelector: c.deployments(above)})
	if err != nil {
		return fmt.Errorf("removing Deployments of controllers: %w", err)
	}
	return nil
}

// deployments selects the Deployments of the sandbox for the controllers above a number.
func (c *Controller) deployments(above int) string {
	s := cluster.ManagedBy + "=" + cluster.MarkName + "," + numberLabel
	if c.o.Owner != "" {
		s += "," + cluster.SandboxLabel + "=" + c.o.Owner
	}
	for number := 1; number <= above; number++ {
		s += fmt.Sprintf(",%s!=%d", numberLabel, number)
	}
	return s
}
