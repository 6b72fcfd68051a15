package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

const runLabel = "sandbox.koupleless.io/scenario"

// setUp creates the namespace and the bases of the run, and starts to observe the run. It does this concurrently
// where possible. It calls broken when the run can no longer be observed.
func (e *execution) setUp(ctx context.Context, broken context.CancelCauseFunc) error {
	e.recorder = observe.New(observe.Options{Client: e.r.kube.Dynamic, Namespace: e.in.name, Group: e.in.name,
		LastWrite: e.lastWrite, Logger: e.r.o.Logger})
	kubeconfig, err := e.prepareIdentity()
	if err != nil {
		return err
	}
	e.env, err = steps.New(steps.Options{
		Sandbox: e.r.o.Sandbox.Client, Kube: e.r.kube, Recorder: e.recorder, Static: e.in.Static, Vars: e.in.Vars,
		Matrix: e.in.Cell.Values,
		Run:    e.in.Run, Namespace: e.in.name, Group: e.in.name, Dir: e.in.Origin.Dir,
		Kubeconfig: kubeconfig, Seed: e.in.seed, TrafficFor: e.in.Spec.Timeout.Duration + finalTimeout, Join: e.join,
	})
	if err != nil {
		return err
	}
	if err := e.compile(); err != nil {
		return err
	}
	watched := e.startWatches(ctx, broken)
	if err := e.setController(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := e.createNamespace(ctx); err != nil {
			return err
		}
		return e.createIdentity(ctx, kubeconfig)
	})
	g.Go(func() error { return e.followObjects(ctx) })
	g.Go(func() error {
		select {
		case <-watched:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return e.env.AddInitialBases(ctx, e.in.Spec.Bases)
	})
	return g.Wait()
}

// startWatches starts to observe the run. The returned channel is closed when the daemon has sent its initial state.
// The watches end when e.stop is called.
func (e *execution) startWatches(ctx context.Context, broken context.CancelCauseFunc) <-chan struct{} {
	observing, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	synced := make(chan struct{})
	e.watches.Go(func() {
		if err := e.recorder.Start(observing); err != nil {
			broken(fmt.Errorf("%w: %w", errUnobservable, err))
		}
	})
	e.watches.Go(func() {
		err := e.r.o.Sandbox.Watch(observing, control.WatchRequest{Group: e.in.name, Own: !e.r.o.Keep},
			func(event events.Event) {
				if event.Synced {
					close(synced)
				}
				e.recorder.AddEvent(event)
			})
		if observing.Err() == nil {
			broken(fmt.Errorf("%w: the event stream ended: %w", errUnobservable, errors.Join(err, errStreamEnded)))
		}
	})
	if e.env.Uses("traffic") {
		e.watches.Go(func() { e.env.FollowTraffic(observing) })
	}
	return synced
}

var errStreamEnded = errors.New("the daemon closed the connection")

func (e *execution) setController(ctx context.Context) error {
	spec := e.in.Spec.Controller
	if spec == nil {
		return nil
	}
	want := control.ControllerRequest{Env: spec.Env, APIView: spec.APIView, Group: e.in.name}
	if spec.Replicas != nil {
		want.Replicas = *spec.Replicas
	}
	if _, err := e.r.o.Sandbox.SetController(ctx, want); err != nil {
		return fmt.Errorf("configuring the module controller for the scenario: %w", err)
	}
	return nil
}

// createNamespace creates the namespace of the run. It waits until the default ServiceAccount exists, because the API
// rejects Pods without it.
func (e *execution) createNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: e.in.name, Labels: map[string]string{runLabel: e.in.Metadata.Name}}}
	if _, err := e.r.kube.Typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", e.in.name, err)
	}
	accounts := e.r.kube.Typed.CoreV1().ServiceAccounts(e.in.name)
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the default ServiceAccount of namespace %s: %w", e.in.name, err)
	}
	return nil
}

// compile compiles all conditions of the scenario before the first step. This determines which objects must be
// watched.
func (e *execution) compile() error {
	var errs []error
	e.in.EachCondition(func(at *field.Path, text string) {
		if text != "" && !expr.HasExpression(text) {
			_, err := e.env.Compile(text, expr.ScopeOf(at.String()))
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// followObjects starts to watch the objects that the scenario uses. It blocks until the existing objects are listed.
func (e *execution) followObjects(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	subjects := map[observe.Subject]bool{
		{Resource: observe.Pods, Namespace: e.in.name}:           true,
		{Resource: observe.EndpointSlices, Namespace: e.in.name}: true,
		observe.NodesOf(e.in.name):                               true,
	}
	for _, name := range expr.Objects {
		if subject, ok := observe.SubjectOf(name, e.in.name, e.in.name); ok && e.env.Uses(name) {
			subjects[subject] = true
		}
	}
	for subject := range subjects {
		g.Go(func() error { return e.recorder.Follow(ctx, subject) })
	}
	e.in.EachStep(func(_ *field.Path, s *v1alpha1.Step) {
		for _, ref := range s.Refs() {
			g.Go(func() error { return e.env.FollowKind(ctx, ref) })
		}
	})
	return g.Wait()
}
