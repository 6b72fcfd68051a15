package daemon

import (
	"context"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/graph"
	"github.com/koupleless/koupsandbox/sandbox/internal/pods"
)

// basesLog opens the log of bases that run elsewhere.
func (a *assembly) basesLog() (io.Writer, error) {
	log, err := os.OpenFile(a.d.o.Dir.Log(fleetName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the bases' log: %w", err)
	}
	a.opened = append(a.opened, log)
	return log, nil
}

// newPods makes what runs bases in Pods. Where the cluster has a way to this machine, they reach the
// broker by the sandbox's own port, which scenarios can disturb; else the user's at its own address.
func (a *assembly) newPods() (*pods.Pods, error) {
	log, err := a.basesLog()
	if err != nil {
		return nil, err
	}
	label, err := a.d.o.Dir.Label()
	if err != nil {
		return nil, err
	}
	bases := a.config.Spec.Bases
	o := pods.Options{
		Config: a.cluster.Cluster().Config, Sandbox: label, Image: bases.Image, AgentImage: bases.AgentImage, Pull: corev1.PullIfNotPresent,
		PerPod: bases.PerPod, Log: log, Changed: a.d.controllerChanged,
	}
	if a.topology.Bases == ownNodes {
		o.Broker = "ssl://" + a.link.Addr()
		if o.BrokerCA, err = os.ReadFile(a.link.CAFile()); err != nil {
			return nil, fmt.Errorf("reading the broker's authority: %w", err)
		}
		if o.Heartbeats, err = a.relay.Open(a.life, a.topology.Host); err != nil {
			return nil, err
		}
		if bases.Image == "" {
			if a.image, err = pods.Image(a.d.o.Programs.Base, string(a.d.o.Dir)); err != nil {
				return nil, err
			}
			o.Image, o.Pull, a.nodes = a.image.Name, corev1.PullNever, a.cluster.Properties().Nodes
		}
	} else if e := a.external; e != nil {
		o.Broker, o.BrokerCA, o.BrokerCert, o.BrokerKey = e.ClientURL(), e.CA, e.Cert, e.Key
	} else {
		return nil, errNoBroker
	}
	return pods.New(o)
}

// podsSteps make the Pods of so many bases, or remove those that an earlier daemon has left.
func (a *assembly) podsSteps(client kubernetes.Interface, bases int) []graph.Step {
	remove := func(ctx context.Context) error {
		label, err := a.d.o.Dir.Label()
		if err != nil {
			return err
		}
		return pods.Remove(ctx, client, label)
	}
	if a.pods == nil {
		return []graph.Step{{Needs: []graph.Condition{cluster.Answers}, Gives: []graph.Condition{podsFollowed}, Run: remove}}
	}
	const made graph.Condition = "the Pods of bases are made"
	follow := a.d.service("the Pods of bases", a.pods.Start)
	follow.Needs, follow.Gives = []graph.Condition{made}, []graph.Condition{podsFollowed}
	steps := []graph.Step{{
		Needs: []graph.Condition{cluster.Answers}, Gives: []graph.Condition{made},
		Run: func(ctx context.Context) error {
			if a.nodes != nil {
				if err := a.nodes.Load(ctx, a.image); err != nil {
					return err
				}
			}
			if a.config.Spec.Bases.AgentImage != "" {
				if err := a.pods.EnsureAgent(ctx); err != nil {
					return err
				}
			}
			return a.pods.Ensure(ctx, a.pods.Number(bases))
		},
		Undo: remove,
	}, follow}
	if a.config.Spec.Bases.AgentImage != "" {
		steps = append(steps, graph.Step{Name: "Starting the traffic agent", Needs: []graph.Condition{made}, Run: a.pods.WaitAgent})
	}
	return steps
}
