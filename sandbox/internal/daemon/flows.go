package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// flows are the streams of requests of all groups: those that this process sends, and those that
// an agent sends from within the cluster, where kube-proxy leads them.
type flows struct {
	here   *traffic.Generator
	inside *inside // nil if nothing can send requests from within the cluster
}

// toldTime is how long bases that are removed wait at most until an agent knows.
const toldTime = 2 * time.Second

type inside struct {
	*agent.Remote
	services corev1client.ServicesGetter
	fleet    *fleet.Fleet
	gateway  *traffic.Gateway
}

// takes reports whether the streams of a group are sent from within the cluster: all its bases run in Pods.
func (i *inside) takes(group string) bool {
	return i != nil && i.all(group, func(m *fleet.Member) bool { return m.Runtime == v1alpha1.RuntimeCluster })
}

func (i *inside) all(group string, matches func(*fleet.Member) bool) bool {
	members := i.fleet.Group(group)
	return len(members) > 0 && !slices.ContainsFunc(members, func(m *fleet.Member) bool { return !matches(m) })
}

// complete sends the requests to a Service through kube-proxy if the cluster routes the addresses of the bases. Bases that
// share a Pod also share its address, so the agent gets their ports.
func (i *inside) complete(ctx context.Context, group string, spec traffic.Spec) (traffic.Spec, agent.Source, error) {
	if spec.Via == v1alpha1.ViaBases {
		spec.Inside = true
		return spec, func() (traffic.TargetSet, <-chan struct{}) { return i.bases(group) }, nil
	}
	if !i.all(group, (*fleet.Member).Routed) {
		spec.Inside = true
		route := traffic.Route{Namespace: spec.Namespace, Service: spec.Service, Port: spec.Port}
		return spec, func() (traffic.TargetSet, <-chan struct{}) { return i.endpoints(route) },
			i.gateway.WaitForEndpoint(ctx, route)
	}
	svc, err := i.services.Services(spec.Namespace).Get(ctx, spec.Service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("there is no Service %s/%s", spec.Namespace, spec.Service)
	case err == nil:
		spec.Address, err = traffic.ClusterAddress(svc, spec.Port)
	}
	return spec, nil, err
}

func (i *inside) bases(group string) (c traffic.TargetSet, change <-chan struct{}) {
	change = i.fleet.Changed() // first, so that nothing is missed
	for _, m := range i.fleet.Group(group) {
		c.Targets = append(c.Targets, reached(m))
	}
	return c, change
}

func (i *inside) endpoints(r traffic.Route) (traffic.TargetSet, <-chan struct{}) {
	c, change := i.gateway.Targets(r)
	for n, t := range c.Targets {
		if m, ok := i.fleet.ByIP(t.IP); ok {
			c.Targets[n] = reached(m).On(t.Port)
			c.Targets[n].Pod = t.Pod
		}
	}
	return c, change
}

// leaving blocks until the agent no longer uses bases that have left the fleet, or ctx ends.
func (i *inside) leaving(ctx context.Context) {
	if i == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, toldTime)
	defer cancel()
	i.SyncTargets(ctx)
}

func reached(m *fleet.Member) traffic.Target {
	return traffic.Target{IP: m.IP(), Base: m.Name(), Host: m.HostName, Web: m.Inside(), Port: m.WebPort}
}

// Begin starts a stream, inside if that is possible. It resolves the address of a Service once.
func (f *flows) Begin(ctx context.Context, group string, spec traffic.Spec) error {
	spec.Address, spec.Inside = "", false
	spec, err := spec.Complete()
	if err != nil {
		return err
	}
	for _, s := range f.Summaries(ctx, group) {
		if s.Name == spec.Name {
			return fmt.Errorf("starting traffic %q: %w", spec.Name, traffic.ErrStreamExists)
		}
	}
	if !f.inside.takes(group) {
		return f.here.StartStream(ctx, group, spec)
	}
	spec, source, err := f.inside.complete(ctx, group, spec)
	if err != nil {
		return fmt.Errorf("starting traffic %q: %w", spec.Name, err)
	}
	return f.inside.StartStream(ctx, group, spec, source)
}

// Summaries counts the streams of a group, in order of their start.
func (f *flows) Summaries(ctx context.Context, group string) []traffic.Summary {
	all := f.here.Summaries(group)
	if f.inside != nil {
		all = append(all, f.inside.Summaries(ctx, group)...)
		slices.SortStableFunc(all, func(a, b traffic.Summary) int { return a.Started.Compare(b.Started) })
	}
	return all
}

// Stop ends a stream and returns what it has led to.
func (f *flows) Stop(ctx context.Context, group, name string) (*traffic.StreamResult, error) {
	end, err := f.here.Stop(ctx, group, name)
	if f.inside != nil && errors.Is(err, traffic.ErrNoStream) {
		return f.inside.Stop(ctx, group, name)
	}
	return end, err
}

// Records calls sink for every request of a stream so far.
func (f *flows) Records(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	records, err := f.here.Records(group, name)
	if f.inside != nil && errors.Is(err, traffic.ErrNoStream) {
		return f.inside.Records(ctx, group, name, sink)
	}
	if err != nil {
		return err
	}
	for r := range records {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		sink(r)
	}
	return nil
}

// Drop cuts the streams of a group off and forgets them.
func (f *flows) Drop(ctx context.Context, group string) {
	f.here.Drop(group)
	if f.inside != nil {
		f.inside.Drop(ctx, group)
	}
}

type launcher func(ctx context.Context, log io.Writer) (agent.Process, error)

// launcher returns how to start an agent: in a node of the sandbox, or in a Pod. It is nil if neither is possible.
func (b *bringUp) launcher() launcher {
	if nodes := b.cluster.Properties().Nodes; nodes != nil {
		return func(ctx context.Context, log io.Writer) (agent.Process, error) {
			p, err := nodes.Launch(ctx, b.d.o.Binaries.Daemon, log, agent.Command)
			if err != nil {
				return nil, err // and no interface with a nil in it
			}
			return p, nil
		}
	}
	if b.pods != nil && b.config.Spec.Bases.AgentImage != "" {
		return b.pods.LaunchAgent
	}
	return nil
}

// newAgent makes an agent, which is started when it is first needed.
func (d *Daemon) newAgent(start launcher) *agent.Remote {
	launch := func(ctx context.Context) (agent.Process, error) {
		log, err := d.openLog(agent.Command)
		if err != nil {
			return nil, err
		}
		p, err := start(ctx, log)
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		go func() { // ends with the agent, which its Remote ends
			<-p.Done()
			_ = log.Close() // each line is written by then
		}()
		return p, nil
	}
	return agent.New(agent.Options{Launch: launch, Lost: d.lost, Logger: d.log.With("component", agent.Command)})
}
