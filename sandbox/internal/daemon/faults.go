package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// SetFault sets a fault and returns the fault ID.
func (d *Daemon) SetFault(ctx context.Context, i fault.Injection) (id string, err error) {
	ctx, running, release, err := d.withRunning(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if i.Target == "" {
		i.Target = v1alpha1.TargetBase
	}
	v1alpha1.SetFaultDefaults(i.Target, &i.Fault)
	if i.ID == "" {
		i.ID = fmt.Sprintf("%s-%d", i.Kind, d.faultCount.Add(1))
	}
	if problems := v1alpha1.ValidateFault(i.Target, &i.Fault); len(problems) > 0 {
		return "", badRequest("invalid fault: %v", problems.ToAggregate())
	}
	members := make([]*fleet.Member, len(i.Bases))
	for n, name := range i.Bases {
		m, err := running.fleet.Find(name)
		if err != nil {
			return "", notFound("%v", err)
		}
		members[n], i.Bases[n] = m, m.HostName
	}
	switch i.Target {
	case v1alpha1.TargetAPI:
		id, err = running.apiFaults.Inject(ctx, i)
	case v1alpha1.TargetMQTT:
		if n := slices.IndexFunc(members,
			func(m *fleet.Member) bool { return m.Tunnel != v1alpha1.TunnelMQTT }); n >= 0 {
			return "", conflict("base %s uses the HTTP tunnel and has no broker connection", i.Bases[n])
		}
		id, err = running.mqttFaults.Inject(i)
	case v1alpha1.TargetBase:
		id, err = i.ID, injectIntoBases(members, i)
	default:
		return "", badRequest("unsupported target %q; supported: base, api, mqtt", i.Target)
	}
	switch {
	case errors.Is(err, apifault.ErrNoController) && running.topology.Controllers != thisMachine:
		return "", conflict("the controllers run in the cluster, where API faults are not available; " +
			"bring the sandbox up with --controller host")
	case errors.Is(err, apifault.ErrNoController), errors.Is(err, fault.ErrExists):
		return "", conflict("%v", err)
	case errors.Is(err, fault.ErrUnknown):
		return "", notFound("%v", err)
	}
	return id, err
}

func injectIntoBases(members []*fleet.Member, i fault.Injection) error {
	if len(members) == 0 {
		return badRequest("a fault with the target base requires at least one base")
	}
	for _, m := range members {
		if _, err := m.Base.Inject(i.OfBase()); err != nil {
			return badRequest("base %s: %v", m.HostName, err)
		}
	}
	return nil
}

// ClearFaults clears the faults that match the selector. It returns an error if no fault has one of the selected IDs.
func (d *Daemon) ClearFaults(_ context.Context, r control.FaultSelector) error {
	running, err := d.requireUp()
	if err != nil {
		return err
	}
	for n, name := range r.Bases {
		m, err := running.fleet.Find(name)
		if err != nil {
			return notFound("%v", err)
		}
		r.Bases[n] = m.HostName
	}
	cleared := running.faults.Clear(func(i fault.Injection) bool { return r.Matches(i) })
	for _, m := range running.fleet.List() {
		var ids []string
		for _, f := range m.Base.Faults() {
			if r.Matches(faultStatus(m, f).Injection) {
				ids = append(ids, f.ID)
			}
		}
		if len(ids) > 0 {
			m.Base.Clear(ids...)
			cleared = append(cleared, ids...)
		}
	}
	for _, id := range r.IDs {
		if !slices.Contains(cleared, id) {
			return notFound("fault %s: %v", id, fault.ErrUnknown)
		}
	}
	return nil
}

func faultStatus(m *fleet.Member, f basefault.Status) fault.Status {
	return fault.Status{
		Injection: fault.Injection{Fault: v1alpha1.FaultOf(f.Fault), Target: v1alpha1.TargetBase,
			Bases: []string{m.HostName}, Group: m.Group},
		Triggered: f.Triggered, Ended: f.Ended,
	}
}

// Faults returns the faults of a group and the controllers' write counts. If the group is empty, it returns all
// faults.
func (d *Daemon) Faults(_ context.Context, r control.GroupRequest) (control.Faults, error) {
	group := r.Group
	running, err := d.requireUp()
	if err != nil {
		return control.Faults{}, err
	}
	list := []fault.Status{}
	for _, m := range running.fleet.List() {
		if group != "" && m.Group != group {
			continue
		}
		for _, f := range m.Base.Faults() {
			list = append(list, faultStatus(m, f))
		}
	}
	return control.Faults{Faults: append(list, running.faults.List(group)...), Writes: running.apiFaults.Writes(group)},
		nil
}

func (s *assembly) dropFaults(group string) {
	s.faults.Clear(func(i fault.Injection) bool { return i.Group == group })
	s.apiFaults.ForgetGroup(group)
}

// maxKnownNodes is the maximum number of Nodes in the group cache of groupOf.
const maxKnownNodes = 1 << 16

// groupOf returns a function that finds the group of an object that a controller writes: for a namespaced object, the
// group named like its namespace; for a Node, the group of its base.
func (d *Daemon) groupOf(f *fleet.Fleet, n *nodes.Watcher) func(namespace, name string) string {
	var mu sync.Mutex
	known := map[string]string{} // a Node may be written after its base has been removed
	return func(namespace, name string) string {
		if namespace != "" {
			if d.hub.knowsGroup(namespace) {
				return namespace
			}
			return ""
		}
		mu.Lock()
		defer mu.Unlock()
		if group, is := known[name]; is {
			return group
		}
		m, is := f.ByIdentity(n.Identity(name))
		if !is {
			return ""
		}
		if len(known) < maxKnownNodes {
			known[name] = m.Group
		}
		return m.Group
	}
}

// killController kills the controller with the number n for a fault. If n is 0, the number is unknown, and
// killController kills the first controller.
func (d *Daemon) killController(n int) {
	n = max(n, 1)
	if err := d.Act(context.Background(),
		control.ActRequest{Component: runner.ComponentName(n), Action: supervise.Kill}); err != nil {
		d.log.Error("could not kill a controller for a fault", "controller", n, "err", err)
	}
}

func (d *Daemon) mqttClient(identity string) mqttfault.Client {
	s, assembled := d.assembled()
	if !assembled {
		return mqttfault.Client{}
	}
	if m, is := s.fleet.ByIdentity(identity); is {
		return mqttfault.Client{Base: m.HostName, Group: m.Group}
	}
	return mqttfault.Client{Replica: s.runner.ReplicaNumber(identity)}
}
