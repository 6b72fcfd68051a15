package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

// Status returns the status of the sandbox. It does not wait for changes in progress.
func (d *Daemon) Status(ctx context.Context, bases bool) *control.Status {
	phase, config := d.phaseNow(), d.configNow()
	s, assembled := d.assembled()
	status := &control.Status{
		Name:        d.o.Dir.Name(),
		Phase:       phase,
		Koupsandbox: version.String(),
		StartedAt:   d.startedAt,
		Kubeconfig:  d.o.Dir.Kubeconfig(),
		Logs:        d.o.Dir.Logs(),
	}
	if phase != control.Running {
		status.Problems = append(status.Problems, fmt.Sprintf("the sandbox is %s", phase))
	}
	if config != nil {
		status.Provider = EffectiveProvider(config)
		status.Env, status.Speed = config.Spec.Env, config.Spec.Speed
		status.Broker.TLS = config.Spec.Broker.TLS
	}
	if assembled {
		status.Version, status.Gateway = s.version, s.gateway
		status.Broker.Addr, status.Broker.URL, status.Broker.Stats = s.link.Addr(), s.link.URL(), s.link.Stats()
		n := s.fleet.Count()
		status.BaseCount, status.BasesConnected = n.Own+n.Groups, n.OwnConnected+n.GroupsConnected
	}
	status.Components = append(status.Components, d.daemonComponent(ctx))
	for _, part := range d.allComponentSets() {
		status.Components = append(status.Components, part.Components(ctx)...)
	}
	for _, c := range status.Components {
		if !c.Ready {
			problem := fmt.Sprintf("%s is %s", c.Name, c.State)
			if c.Reason != string(c.State) {
				problem += ": " + c.Reason
			}
			status.Problems = append(status.Problems, problem)
		}
	}
	if assembled {
		if left := len(s.nodes.WithReadyNode(s.fleet.RemovedIdentities(), false)); left > 0 {
			status.Problems = append(status.Problems,
				plain.Count(left, "Ready Node")+
					" without a base; the controller has not detected the removal yet")
		}
	}
	if bases && assembled {
		status.Bases = s.describe(s.fleet.List())
		var own, notReady int
		for _, b := range status.Bases {
			if b.Group != "" {
				continue // its owner monitors it
			}
			own++
			if !b.NodeReady {
				notReady++
			}
		}
		if notReady > 0 {
			status.Problems = append(status.Problems,
				fmt.Sprintf("bases without a Ready Node: %d of %d", notReady, own))
		}
	}
	status.Healthy = len(status.Problems) == 0
	return status
}

func (d *Daemon) daemonComponent(ctx context.Context) control.Component {
	c := control.Component{
		Name: daemonName, State: supervise.Running, Ready: true, PID: os.Getpid(), StartedAt: d.startedAt,
		Log: d.o.Dir.Log(daemonName),
	}
	// Not every operating system reports the memory.
	if p, err := process.NewProcessWithContext(ctx, int32(os.Getpid())); err == nil { //nolint:gosec // a pid fits
		if m, err := p.MemoryInfoWithContext(ctx); err == nil {
			c.RSS = m.RSS
		}
	}
	return c
}
