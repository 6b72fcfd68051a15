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
	// agentTimeout is how long the Pod of the agent may take: its node may have to pull the image.
	agentTimeout = time.Minute
)

// EnsureAgent has the cluster run the Pod of the traffic agent. It does not wait for it. It refuses to
// touch a StatefulSet of somebody else.
func (p *Pods) EnsureAgent(ctx context.Context) error {
	if err := p.apply(ctx, p.statefulSet(AgentName, 1, p.o.AgentImage, agentProgram, agent.Command,
		"--"+agent.Idle)); err != nil {
		return fmt.Errorf("starting the Pod of the traffic agent: %w", err)
	}
	return nil
}

// WaitAgent blocks until the Pod of the traffic agent runs. When ctx ends before, the error says why it
// does not.
func (p *Pods) WaitAgent(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		pod, err := p.client.CoreV1().Pods(namespace).Get(ctx, agentPod, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, nil // the API server may be busy
	})
	if err != nil {
		return p.withPodReason(context.WithoutCancel(ctx), agentPod,
			fmt.Errorf("the Pod %s does not run: %w", agentPod, context.Cause(ctx)))
	}
	return nil
}

// LaunchAgent starts the traffic agent in its Pod, and blocks until it answers, for up to a minute, in
// which the Pod may come. What the agent has to say goes to log.
func (p *Pods) LaunchAgent(ctx context.Context, log io.Writer) (agent.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	for {
		conn, err := p.execute(ctx, agentPod, log, agentProgram, agent.Command, "--"+agent.Patience, idleTimeout)
		if err == nil {
			go func() { // ends with the connection
				_ = monitor(context.WithoutCancel(ctx), conn) // says why it ends
				_ = conn.Close()
			}()
			return conn, nil
		}
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			err = p.withPodReason(context.WithoutCancel(ctx), agentPod, err)
			return nil, fmt.Errorf("the Pod %s does not answer within %s: %w", agentPod, agentTimeout, err)
		}
	}
}
