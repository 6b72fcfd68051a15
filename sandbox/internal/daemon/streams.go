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

// trafficStreams manages the request streams of all groups. The daemon sends the requests of some streams itself. An
// agent in the cluster sends the requests of the other streams, so that they can use kube-proxy.
type trafficStreams struct {
	local   *traffic.Generator
	cluster *clusterSender // nil if no requests can be sent from within the cluster
}

// agentTimeout is how long the removal of bases waits for the agent to stop sending requests to these bases.
const agentTimeout = 2 * time.Second

// clusterSender sends the requests of streams from within the cluster.
type clusterSender struct {
	*agent.Remote
	services corev1client.ServicesGetter
	fleet    *fleet.Fleet
	gateway  *traffic.Gateway
}

// handles reports whether the requests of a group's streams are sent from within the cluster: all bases of the group
// must run in Pods.
func (i *clusterSender) handles(group string) bool {
	return i != nil && i.allBases(group, func(m *fleet.Member) bool { return m.Runtime == v1alpha1.RuntimeCluster })
}

func (i *clusterSender) allBases(group string, matches func(*fleet.Member) bool) bool {
	members := i.fleet.Group(group)
	return len(members) > 0 && !slices.ContainsFunc(members, func(m *fleet.Member) bool { return !matches(m) })
}

// completeSpec sets the target of a stream. If the cluster routes the addresses of the bases, the target is the
// address of the Service, and kube-proxy selects the endpoint. If not, bases in the same Pod share an address, and
// the agent gets the ports of the bases from the returned Source.
func (i *clusterSender) completeSpec(ctx context.Context, group string, spec traffic.Spec) (traffic.Spec, agent.Source,
	error) {
	if spec.Via == v1alpha1.ViaBases {
		spec.Inside = true
		return spec, func() (traffic.TargetSet, <-chan struct{}) { return i.baseChoice(group) }, nil
	}
	if !i.allBases(group, (*fleet.Member).Routed) {
		spec.Inside = true
		route := traffic.Route{Namespace: spec.Namespace, Service: spec.Service, Port: spec.Port}
		return spec, func() (traffic.TargetSet, <-chan struct{}) { return i.endpointChoice(route) },
			i.gateway.WaitForEndpoint(ctx, route)
	}
	svc, err := i.services.Services(spec.Namespace).Get(ctx, spec.Service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("service %s/%s does not exist", spec.Namespace, spec.Service)
	case err == nil:
		spec.Address, err = traffic.ClusterAddress(svc, spec.Port)
	}
	return spec, nil, err
}

func (i *clusterSender) baseChoice(group string) (c traffic.TargetSet, change <-chan struct{}) {
	change = i.fleet.Changed() // before the list, so that no change is missed
	for _, m := range i.fleet.Group(group) {
		c.Targets = append(c.Targets, targetOf(m))
	}
	return c, change
}

func (i *clusterSender) endpointChoice(r traffic.Route) (traffic.TargetSet, <-chan struct{}) {
	c, change := i.gateway.Targets(r)
	for n, t := range c.Targets {
		if m, ok := i.fleet.ByIP(t.IP); ok {
			c.Targets[n] = targetOf(m).WithPort(t.Port)
			c.Targets[n].Pod = t.Pod
		}
	}
	return c, change
}

// waitUntilUnused blocks until the agent no longer sends requests to removed bases, but at most for agentTimeout.
func (i *clusterSender) waitUntilUnused(ctx context.Context) {
	if i == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	i.SyncTargets(ctx)
}

func targetOf(m *fleet.Member) traffic.Target {
	return traffic.Target{IP: m.IP(), Base: m.Name(), Host: m.HostName, Web: m.ClusterAddr(), Port: m.WebPort}
}

// Begin starts a request stream for a group, from within the cluster if possible. It resolves the address of the
// Service only once.
func (f *trafficStreams) Begin(ctx context.Context, group string, spec traffic.Spec) error {
	spec.Address, spec.Inside = "", false
	spec, err := spec.Complete()
	if err != nil {
		return err
	}
	for _, s := range f.Summaries(ctx, group) {
		if s.Name == spec.Name {
			return fmt.Errorf("starting stream %q: %w", spec.Name, traffic.ErrStreamExists)
		}
	}
	if !f.cluster.handles(group) {
		return f.local.StartStream(ctx, group, spec)
	}
	spec, source, err := f.cluster.completeSpec(ctx, group, spec)
	if err != nil {
		return fmt.Errorf("starting stream %q: %w", spec.Name, err)
	}
	return f.cluster.StartStream(ctx, group, spec, source)
}

// Summaries returns the request counts of each stream of a group, in the order in which the streams started.
func (f *trafficStreams) Summaries(ctx context.Context, group string) []traffic.Summary {
	all := f.local.Summaries(group)
	if f.cluster != nil {
		all = append(all, f.cluster.Summaries(ctx, group)...)
		slices.SortStableFunc(all, func(a, b traffic.Summary) int { return a.Started.Compare(b.Started) })
	}
	return all
}

// Stop stops a request stream and returns its result.
func (f *trafficStreams) Stop(ctx context.Context, group, name string) (*traffic.StreamResult, error) {
	end, err := f.local.Stop(ctx, group, name)
	if f.cluster != nil && errors.Is(err, traffic.ErrNoStream) {
		return f.cluster.Stop(ctx, group, name)
	}
	return end, err
}

// Records calls sink for each recorded request of a stream.
func (f *trafficStreams) Records(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	records, err := f.local.Records(group, name)
	if f.cluster != nil && errors.Is(err, traffic.ErrNoStream) {
		return f.cluster.Records(ctx, group, name, sink)
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

// Drop aborts and removes the request streams of a group.
func (f *trafficStreams) Drop(ctx context.Context, group string) {
	f.local.Drop(group)
	if f.cluster != nil {
		f.cluster.Drop(ctx, group)
	}
}

type launcher func(ctx context.Context, log io.Writer) (agent.Process, error)

// agentLauncher returns a function that starts an agent on a node of the sandbox or in a Pod. It returns nil if
// neither is possible.
func (b *bringUp) agentLauncher() launcher {
	if nodes := b.cluster.Properties().Nodes; nodes != nil {
		return func(ctx context.Context, log io.Writer) (agent.Process, error) {
			p, err := nodes.Launch(ctx, b.d.o.Binaries.Daemon, log, agent.Command)
			if err != nil {
				return nil, err // not a non-nil interface with a nil pointer
			}
			return p, nil
		}
	}
	if b.pods != nil && b.config.Spec.Fleet.AgentImage != "" {
		return b.pods.LaunchAgent
	}
	return nil
}

// newAgent creates an agent that starts when it is first used.
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
		go func() { // ends when the agent process ends
			<-p.Done()
			_ = log.Close() // all lines have been written
		}()
		return p, nil
	}
	return agent.New(agent.Options{Launch: launch, Lost: d.reportLostRequest,
		Logger: d.log.With("component", agent.Command)})
}
