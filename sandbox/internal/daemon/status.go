package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Status tells how everything is; it never waits for a change to end.
func (d *Daemon) Status(ctx context.Context, bases bool) *control.Status {
	s, phase := d.now(), d.phaseNow()
	status := &control.Status{
		Name:       d.o.Dir.Name(),
		Phase:      phase,
		Version:    s.version,
		StartedAt:  d.startedAt,
		Kubeconfig: d.o.Dir.Kubeconfig(),
		Logs:       d.o.Dir.Logs(),
	}
	if phase != control.Running {
		status.Problems = append(status.Problems, fmt.Sprintf("the sandbox is %s", phase))
	}
	if s.config != nil {
		status.Provider = EffectiveProvider(s.config)
		status.Env = s.config.Spec.Env
		status.Broker.TLS = s.config.Spec.Broker.TLS
	}
	status.Components = append(status.Components, d.self(ctx))
	if s.mqtt != nil {
		status.Broker.Addr, status.Broker.URL, status.Broker.Stats = s.mqtt.addr, s.mqtt.url, s.mqtt.stats()
		status.Components = append(status.Components, s.mqtt.component())
	}
	status.Gateway = s.gateway
	if s.fleet != nil {
		n := s.fleet.Count()
		status.BaseCount, status.BasesConnected = n.Own+n.Groups, n.OwnConnected+n.GroupsConnected
		// Bases of a group may be meant not to be well: their owners watch them.
		c := control.Component{Name: fleetName, State: string(supervise.Running), Ready: n.Own == n.OwnConnected,
			PID: os.Getpid(), StartedAt: d.startedAt}
		if !c.Ready {
			c.Reason = fmt.Sprintf("%d of %d are connected to the broker", n.OwnConnected, n.Own)
		}
		for _, m := range s.fleet.Group("") {
			if err := s.fleet.Failure(m); err != nil {
				c.Reason += fmt.Sprintf("; %s has ended: %v", m.HostName, err)
			}
		}
		status.Components = append(status.Components, c)
	}
	if p, ok := s.platform.(componentPlatform); ok && s.version != "" {
		status.Components = append(status.Components, p.Component(ctx))
	}
	if s.deployed != nil {
		status.Components = append(status.Components, d.deployedComponents(s.deployed)...)
	}
	for _, p := range d.supervisor.Status(ctx) {
		status.Components = append(status.Components, control.Component{
			Name: p.Name, State: string(p.State), Ready: p.Ready, Reason: p.Reason, PID: p.PID, StartedAt: p.StartedAt,
			Exit: p.ExitError, RSS: p.RSS, CPU: p.CPU, Log: p.LogFile,
		})
	}
	for _, c := range status.Components {
		if !c.Ready {
			status.Problems = append(status.Problems, fmt.Sprintf("%s is %s: %s", c.Name, c.State, c.Reason))
		}
	}
	if bases && s.fleet != nil {
		status.Bases = d.describe(s.fleet.List())
		var own, notReady int
		for _, b := range status.Bases {
			if b.Group != "" {
				continue // as above
			}
			own++
			if !b.NodeReady {
				notReady++
			}
		}
		if notReady > 0 {
			status.Problems = append(status.Problems, fmt.Sprintf("%d of %s have no Ready Node", notReady, count(own, "base")))
		}
	}
	status.Healthy = len(status.Problems) == 0
	return status
}

// self is the daemon as a component.
func (d *Daemon) self(ctx context.Context) control.Component {
	c := control.Component{
		Name: component, State: string(supervise.Running), Ready: true, PID: os.Getpid(), StartedAt: d.startedAt, Log: d.o.Dir.Log(component),
	}
	// A system that does not tell the memory leaves it out.
	if p, err := process.NewProcessWithContext(ctx, int32(os.Getpid())); err == nil {
		if m, err := p.MemoryInfoWithContext(ctx); err == nil {
			c.RSS = m.RSS
		}
	}
	return c
}
