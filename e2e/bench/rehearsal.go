package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// bases starts the bases in this process, which then knows of each change while
// it is made. They reach the sandbox through TCP. stop ends them and waits.
func (r rehearsal) bases(ctx context.Context) (stop func() error, err error) {
	at, err := r.Broker()
	if err != nil {
		return nil, err
	}
	heart, err := r.heartbeats()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, comparedBases)
	stop = func() error {
		cancel()
		running.Wait()
		return errors.Join(errs...)
	}
	for i := range comparedBases {
		o := fakebase.Options{
			Identity: fmt.Sprintf("%s-%d", r.own(), i), Name: r.own(), Env: at.Env, Activation: r.activation,
			Catalogue: &fakebase.Catalogue{Fetch: fakebase.FetchNever, InstallTime: fakebase.Delay{Min: fakebase.Duration(cmp.Or(r.install, installTime))}},
		}
		if r.http {
			o.IP = fmt.Sprintf("127.78.%d.%d", r.number, i+1)
			o.HTTP = &fakebase.HTTPOptions{Addr: net.JoinHostPort(o.IP, "0"), HeartbeatEndpoint: heart}
		} else {
			o.IP = fmt.Sprintf("198.19.%d.%d", r.number, i+1)
			o.MQTT = &fakebase.MQTTOptions{Broker: "tcp://" + at.Addr, Username: "base", Password: at.Passwords.Base, ClientPrefix: at.ClientPrefix}
		}
		base, err := fakebase.New(o)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		node := "vnode." + o.Identity
		base.Watch(func(e fakebase.Event) { r.ledger.base(node, e) })
		running.Go(func() { errs[i] = base.Start(ctx) })
	}
	return stop, nil
}

// heartbeats is where the controller takes them over HTTP, as its log tells.
func (r rehearsal) heartbeats() (string, error) {
	log, err := os.ReadFile(r.Log(box.ControllerProgram))
	if err != nil {
		return "", fmt.Errorf("looking for the controller's address: %w", err)
	}
	_, after, ok := strings.Cut(string(log), `msg="receiving heartbeats over HTTP" addr=`)
	if !ok {
		return "", errors.New("the controller's log does not tell where it receives heartbeats over HTTP")
	}
	return "http://" + strings.Fields(after)[0], nil
}

// watchPods enters the Pods of the rehearsal into the ledger until it is stopped.
func (r rehearsal) watchPods(ctx context.Context) (stop func(), err error) {
	api := r.client.CoreV1().Pods(namespace)
	mine := "app=" + r.own()
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: mine})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods: %w", err)
	}
	w, err := watchFrom(ctx, list.ResourceVersion, mine, api.Watch)
	if err != nil {
		return nil, fmt.Errorf("watching the Pods: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for e := range w.ResultChan() {
			r.ledger.pod(e)
		}
	})
	return sync.OnceFunc(func() {
		w.Stop()
		running.Wait()
	}), nil
}

// deploy makes the Deployment: one Pod for each base, and at most one of each version on a base.
func (r rehearsal) deploy(ctx context.Context) error {
	t := module.Template(r.own(), module.Container(app, oldVersion))
	t.Spec.NodeSelector = map[string]string{module.LabelBaseName: r.own()}
	module.OnePerBase(&t)
	d := module.Deployment(namespace, r.own(), comparedBases, t)
	share := intstr.FromString(comparedShare)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
		MaxSurge: &share, MaxUnavailable: &share,
	}}
	if _, err := r.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Deployment: %w", err)
	}
	return nil
}

// upgrade puts the second version into the Deployment.
func (r rehearsal) upgrade(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%[1]q,"image":%[2]q,"env":[{"name":%[3]q,"value":%[4]q}]}]}}}}`,
		app, module.URL(app, newVersion), module.EnvVersion, newVersion)
	if _, err := r.client.AppsV1().Deployments(namespace).Patch(ctx, r.own(), types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("updating the Deployment: %w", err)
	}
	return nil
}

// everywhere says that the version's Pods are Ready, on each base one, and that nothing else is left.
func everywhere(s standing) bool {
	return s.ready == comparedBases && s.pods == comparedBases && s.active == comparedBases
}

// until waits for a standing, which is asked for at every change.
func (r rehearsal) until(ctx context.Context, version, what string, ok func(standing) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	for {
		s, change := r.ledger.standing(version)
		if ok(s) {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w; of version %s: %+v", what, context.Cause(ctx), version, s)
		}
	}
}

// completed waits until the Deployment says that it is.
func (r rehearsal) completed(ctx context.Context) error {
	last := errors.New("nobody has looked")
	err := wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(ctx context.Context) (bool, error) {
		d, err := r.client.AppsV1().Deployments(namespace).Get(ctx, r.own(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := d.Status
		last = fmt.Errorf("the Deployment is at %+v", s)
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == comparedBases && s.Replicas == comparedBases && s.AvailableReplicas == comparedBases, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the Deployment is complete: %w; %w", err, last)
	}
	return nil
}

// killed kills the controller when a third of the bases have the second version,
// starts it again after a while, and returns when that began.
func (r rehearsal) killed(ctx context.Context) (again time.Time, err error) {
	if err := r.until(ctx, newVersion, "a third of the bases have the second version", func(s standing) bool { return s.begun >= comparedBases/3 }); err != nil {
		return again, err
	}
	list, err := r.Processes(ctx)
	if err != nil {
		return again, err
	}
	p, err := box.Find(list, controllerPart)
	if err != nil {
		return again, err
	}
	if err := p.Kill(ctx); err != nil {
		return again, err
	}
	if err := r.rest(ctx, outage); err != nil {
		return again, err
	}
	again = time.Now()
	return again, r.Must(ctx, "component", "start", controllerPart)
}
