package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// flows are the streams of requests of all groups: those that this process sends, and those that
// are sent from within the cluster, where kube-proxy leads them.
type flows struct {
	here   *traffic.Generator
	inside insider
}

// insider sends requests from within the cluster.
type insider interface {
	// routes tells whether the cluster routes the addresses of a group's bases.
	routes(group string) bool
	// address completes a stream with the address of its Service.
	address(ctx context.Context, spec traffic.Spec) (traffic.Spec, error)
	Begin(ctx context.Context, group string, spec traffic.Spec) error
	Summaries(ctx context.Context, group string) []traffic.Summary
	Stop(ctx context.Context, group, name string) (*traffic.End, error)
	Records(ctx context.Context, group, name string, sink func(traffic.Record)) error
	Drop(ctx context.Context, group string)
}

// noAgent is the insider of a cluster in which nothing of ours can run.
type noAgent struct{}

var errNoAgent = errors.New("nothing can send requests from within this cluster")

func (noAgent) routes(string) bool { return false }
func (noAgent) address(_ context.Context, s traffic.Spec) (traffic.Spec, error) {
	return s, errNoAgent
}
func (noAgent) Begin(context.Context, string, traffic.Spec) error   { return errNoAgent }
func (noAgent) Summaries(context.Context, string) []traffic.Summary { return nil }
func (noAgent) Stop(context.Context, string, string) (*traffic.End, error) {
	return nil, traffic.ErrNoStream
}
func (noAgent) Records(context.Context, string, string, func(traffic.Record)) error {
	return traffic.ErrNoStream
}
func (noAgent) Drop(context.Context, string) {}

// inside is an agent in the network of the cluster's nodes.
type inside struct {
	*agent.Remote
	services corev1client.ServicesGetter
	fleet    *fleet.Fleet
}

// routes tells whether all bases of a group have addresses that the cluster routes: not those of
// bases in this process.
func (i *inside) routes(group string) bool {
	members := i.fleet.Group(group)
	return len(members) > 0 && !slices.ContainsFunc(members, func(m *fleet.Member) bool { return m.Runtime != v1alpha1.RuntimeContainer })
}

func (i *inside) address(ctx context.Context, spec traffic.Spec) (traffic.Spec, error) {
	svc, err := i.services.Services(spec.Namespace).Get(ctx, spec.Service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("there is no Service %s/%s", spec.Namespace, spec.Service)
	case err == nil:
		spec.Address, err = traffic.ClusterAddress(svc, spec.Port)
	}
	return spec, err
}

// Begin starts a stream. What goes to a Service begins inside if that is possible: the
// Service's address is that of now, as it is to a client that has looked it up.
func (f *flows) Begin(ctx context.Context, group string, spec traffic.Spec) error {
	spec.Address = ""
	spec, err := spec.Complete()
	if err != nil {
		return err
	}
	for _, s := range f.Summaries(ctx, group) {
		if s.Name == spec.Name {
			return fmt.Errorf("starting traffic %q: %w", spec.Name, traffic.ErrStreamExists)
		}
	}
	if spec.Via == v1alpha1.ViaBases || !f.inside.routes(group) {
		return f.here.Begin(ctx, group, spec)
	}
	if spec, err = f.inside.address(ctx, spec); err != nil {
		return fmt.Errorf("starting traffic %q: %w", spec.Name, err)
	}
	return f.inside.Begin(ctx, group, spec)
}

// Summaries counts the streams of a group, in order of their start.
func (f *flows) Summaries(ctx context.Context, group string) []traffic.Summary {
	all := append(f.here.Summaries(group), f.inside.Summaries(ctx, group)...)
	slices.SortStableFunc(all, func(a, b traffic.Summary) int { return a.Started.Compare(b.Started) })
	return all
}

// Stop ends a stream and returns what it has led to.
func (f *flows) Stop(ctx context.Context, group, name string) (*traffic.End, error) {
	if end, err := f.inside.Stop(ctx, group, name); !errors.Is(err, traffic.ErrNoStream) {
		return end, err
	}
	return f.here.Stop(ctx, group, name)
}

// Records calls sink for every request of a stream so far.
func (f *flows) Records(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	if err := f.inside.Records(ctx, group, name, sink); !errors.Is(err, traffic.ErrNoStream) {
		return err
	}
	records, err := f.here.Records(group, name)
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
	f.inside.Drop(ctx, group)
}

// newAgent makes an agent in the network of the nodes, which is started when it is first needed.
func (d *Daemon) newAgent(nodes cluster.Nodes) *agent.Remote {
	launch := func(ctx context.Context) (agent.Process, error) {
		log, err := os.OpenFile(d.o.Dir.Log(agent.Command), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the traffic agent's log: %w", err)
		}
		p, err := nodes.Launch(ctx, d.o.Programs.Self, log, agent.Command)
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
