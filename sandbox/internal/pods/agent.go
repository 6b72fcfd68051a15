package pods

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

const (
	agentProgram = "/koupsandbox"
	agentPod     = AgentName + "-0"
	// agentTimeout is how long LaunchAgent waits for the Pod of the agent, including the image pull.
	agentTimeout = time.Minute
)

// EnsureAgent creates or updates the StatefulSet of the traffic agent. It does not wait for the Pod. It returns an
// error if the StatefulSet belongs to another owner.
func (p *Pods) EnsureAgent(ctx context.Context) error {
	if err := p.apply(ctx, p.statefulSet(AgentName, 1, p.o.AgentImage, agentProgram, agent.Command,
		"--"+agent.Idle)); err != nil {
		return fmt.Errorf("applying the StatefulSet of the traffic agent: %w", err)
	}
	return nil
}

// WaitAgent blocks until the Pod of the traffic agent is running. If ctx ends first, the error contains the reason
// why the Pod is not running.
func (p *Pods) WaitAgent(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		pod, err := p.client.CoreV1().Pods(namespace).Get(ctx, agentPod, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, nil // retry: the API server may be unavailable
	})
	if err != nil {
		return p.withPodReason(context.WithoutCancel(ctx), agentPod,
			fmt.Errorf("pod %s is not running: %w", agentPod, context.Cause(ctx)))
	}
	return nil
}

// LaunchAgent starts the traffic agent in its Pod. It blocks until the agent responds, but at most for a minute. The
// standard error of the agent is written to log.
func (p *Pods) LaunchAgent(ctx context.Context, log io.Writer) (agent.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	for {
		conn, err := p.execute(ctx, agentPod, log, agentProgram, agent.Command, "--"+agent.Patience, idleTimeout)
		if err == nil {
			go func() { // ends with the connection
				_ = monitor(context.WithoutCancel(ctx), conn) // conn.Err has the reason
				_ = conn.Close()
			}()
			return conn, nil
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			err = p.withPodReason(context.WithoutCancel(ctx), agentPod, err)
			return nil, fmt.Errorf("pod %s did not respond within %s: %w", agentPod, agentTimeout, err)
		}
	}
}
