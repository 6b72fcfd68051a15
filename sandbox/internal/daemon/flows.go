package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic/agent"
)

// flows are the streams of requests of all groups: those that this process sends, and
// those that an agent sends from within the cluster, where kube-proxy leads them.
type flows struct {
	here *traffic.Generator
	// inside is nil where no agent can be started; services and routed are needed with
	// it only.
	inside   *agent.Remote
	services corev1client.ServicesGetter
	// routed tells whether the cluster routes the addresses of a group's bases.
	routed func(group string) bool
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
	if f.inside == nil || spec.Via == v1alpha1.ViaBases || !f.routed(group) {
		return f.here.Begin(ctx, group, spec)
	}
	svc, err := f.services.Services(spec.Namespace).Get(ctx, spec.Service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("there is no Service %s/%s", spec.Namespace, spec.Service)
	case err == nil:
		spec.Address, err = traffic.ClusterAddress(svc, spec.Port)
	}
	if err != nil {
		return fmt.Errorf("starting traffic %q: %w", spec.Name, err)
	}
	return f.inside.Begin(ctx, group, spec)
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
func (f *flows) Stop(ctx context.Context, group, name string) (*traffic.End, error) {
	if f.inside != nil {
		if end, err := f.inside.Stop(ctx, group, name); !errors.Is(err, traffic.ErrNoStream) {
			return end, err
		}
	}
	return f.here.Stop(ctx, group, name)
}

// Records calls sink for every request of a stream so far.
func (f *flows) Records(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	if f.inside != nil {
		if err := f.inside.Records(ctx, group, name, sink); !errors.Is(err, traffic.ErrNoStream) {
			return err
		}
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
	if f.inside != nil {
		f.inside.Drop(ctx, group)
	}
}

// launcher is a platform that can start a program of this machine in a node of its cluster.
type launcher interface {
	Launch(ctx context.Context, program string, stderr io.Writer, args ...string) (*stdio.Process, error)
}

// launchAgent returns what starts an agent in the network of the nodes' cluster.
func (d *Daemon) launchAgent(nodes launcher) func(context.Context) (agent.Process, error) {
	return func(ctx context.Context) (agent.Process, error) {
		log, err := os.OpenFile(d.o.Dir.Log(agent.Command), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the traffic agent's log: %w", err)
		}
		p, err := nodes.Launch(ctx, d.o.Programs.Self, log, agent.Command)
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		d.parts.Go(func() {
			<-p.Done()
			_ = log.Close() // each line is written by then
		})
		return p, nil
	}
}

// routed tells whether all bases of a group have addresses that the cluster routes:
// not those of bases in this process.
func (d *Daemon) routed(group string) bool {
	members := d.now().fleet.Group(group)
	return len(members) > 0 && !slices.ContainsFunc(members, func(m *fleet.Member) bool { return m.Runtime != v1alpha1.RuntimeContainer })
}
