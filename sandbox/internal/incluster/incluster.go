package incluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// fieldManager owns what a sandbox sets in the manifests.
	fieldManager = "koupsandbox"
	// poll is how often the Deployment is looked at.
	poll = 100 * time.Millisecond
	// selector selects the controller's Pods.
	selector = nameLabel + "=" + name
)

// Options of a Controller.
type Options struct {
	// Config reaches the cluster as an administrator. Required.
	Config *rest.Config
	// Replicas is how many Pods there are. Required.
	Replicas int
	// Env is the environment that bases share with the controller. Required.
	Env string
	// Broker is where the bases are. Required.
	Broker Broker
	// Kubelet is what the controller needs to serve logs and exec. Required.
	Kubelet Kubelet
	// Settings are variables for the controller, over those of the manifests. Default: none.
	Settings map[string]string
}

// Broker is an MQTT broker that speaks TLS.
type Broker struct {
	Host, Port, Username, Password string
	// CA is the authority to trust, as PEM.
	CA []byte
}

// Kubelet is the serving certificate with its key, and the authority of the API server's client certificate; all PEM.
type Kubelet struct {
	Cert, Key, ClientCA []byte
}

// State is how the controller is.
type State struct {
	// Wanted, Ready are numbers of Pods.
	Wanted, Ready int
	// Since is when the oldest of its Pods was started; zero without one.
	Since time.Time
	// Reason says why Ready is less than Wanted, if it is known.
	Reason string
}

// Controller is the Deployment of a module controller. Its methods may be called concurrently.
type Controller struct {
	o       Options
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// New makes the clients. It does not call the cluster.
func New(o Options) (*Controller, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	dyn, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return &Controller{o: o, client: client, dynamic: dyn}, nil
}

// Ensure applies the manifests and blocks until every Pod is ready. What is there already is brought in line.
func (c *Controller) Ensure(ctx context.Context) error {
	objects, err := manifests(c.o)
	if err != nil {
		return err
	}
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()) // right for the kinds of our manifests
		var api dynamic.ResourceInterface = c.dynamic.Resource(resource)
		if object.GetNamespace() != "" {
			api = c.dynamic.Resource(resource).Namespace(object.GetNamespace())
		}
		_, err := api.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return c.wait(ctx)
}

// wait blocks until every Pod of the newest settings is ready and no other is left.
func (c *Controller) wait(ctx context.Context) error {
	for {
		d, err := c.deployment(ctx)
		if err == nil && settled(d) {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = errors.New(c.State(context.WithoutCancel(ctx)).Reason)
			}
			return fmt.Errorf("the controller's Pods are not ready: %w: %w", err, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

func settled(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.ReadyReplicas == *d.Spec.Replicas && s.UpdatedReplicas == *d.Spec.Replicas &&
		s.Replicas == *d.Spec.Replicas
}

func (c *Controller) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking at the controller's Deployment: %w", err)
	}
	return d, nil
}

// State tells how the controller is; an API that does not answer is told as the reason.
func (c *Controller) State(ctx context.Context) State {
	d, err := c.deployment(ctx)
	if err != nil {
		return State{Wanted: c.o.Replicas, Reason: err.Error()}
	}
	s := State{Wanted: int(*d.Spec.Replicas), Ready: int(d.Status.ReadyReplicas)}
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		s.Reason = err.Error()
		return s
	}
	for _, p := range pods.Items {
		if started := p.Status.StartTime; started != nil && (s.Since.IsZero() || started.Time.Before(s.Since)) {
			s.Since = started.Time
		}
		if why := notReady(&p); why != "" && s.Ready < s.Wanted {
			s.Reason = why
		}
	}
	return s
}

// notReady says why a Pod is not ready, empty if it is.
func notReady(p *corev1.Pod) string {
	for _, status := range p.Status.ContainerStatuses {
		switch w, t := status.State.Waiting, status.LastTerminationState.Terminated; {
		case status.Ready:
			return ""
		case w != nil && w.Message != "":
			return fmt.Sprintf("Pod %s: %s: %s", p.Name, w.Reason, w.Message)
		case t != nil:
			return fmt.Sprintf("Pod %s ended with exit status %d", p.Name, t.ExitCode)
		}
	}
	for _, condition := range p.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return fmt.Sprintf("Pod %s: %s", p.Name, condition.Message)
		}
	}
	return fmt.Sprintf("Pod %s is %s", p.Name, p.Status.Phase)
}

// Scale brings the number of Pods to n and blocks until they are ready.
func (c *Controller) Scale(ctx context.Context, n int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	_, err := c.client.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("scaling the controller to %d: %w", n, err)
	}
	return c.wait(ctx)
}

// Kill deletes all Pods without giving them time to end; the Deployment makes new ones.
func (c *Controller) Kill(ctx context.Context) error {
	now := int64(0)
	err := c.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
		metav1.ListOptions{LabelSelector: selector})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("killing the controller's Pods: %w", err)
	}
	return nil
}

// Restart replaces all Pods and blocks until the new ones are ready.
func (c *Controller) Restart(ctx context.Context) error {
	if err := c.Kill(ctx); err != nil {
		return err
	}
	return c.Scale(ctx, c.o.Replicas)
}
