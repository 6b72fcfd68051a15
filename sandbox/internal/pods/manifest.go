package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

const (
	// Name of the StatefulSet of bases. A cluster is that of one sandbox at a time.
	Name = "koupsandbox-bases"
	// AgentName is that of the traffic agent.
	AgentName = "koupsandbox-agent"
	// imageName is how nodes that are given the image know it; a tag is added that tells what is in it.
	imageName = "localhost/koupsandbox/fakebase"

	// namespace is there in every cluster, so none has to be made or removed.
	namespace    = metav1.NamespaceDefault
	nameLabel    = "app.kubernetes.io/name"
	sandboxLabel = cluster.SandboxLabel
	container    = "program"
	program      = "/fakebase"
	// nobody is the user of the program, as in its image.
	nobody = 65532
	// gracePeriod in seconds is more than a program needs that does nothing.
	gracePeriod = 2
	// removePoll is how often to look whether the Pods have ended, and removeTime for how long.
	removePoll, removeTime = 100 * time.Millisecond, 5 * time.Second
	// conditionTime bounds the question how a Pod is.
	conditionTime = 2 * time.Second
)

// Image describes the image of the fakebase program for the nodes; its one layer lies in dir.
func Image(program, dir string) (*image.Image, error) {
	if err := image.IsStatic(program); err != nil {
		return nil, fmt.Errorf("%s cannot run in a Pod: %w; build it with: make build, or use --base-runtime process",
			program, err)
	}
	return image.FromBinary(imageName, program, dir)
}

// Ensure has the cluster run at least number Pods, and all that are known, with the settings of now.
// It does not wait for them. It refuses to touch a StatefulSet of somebody else.
func (p *Pods) Ensure(ctx context.Context, number int) error {
	p.ensuring.Lock()
	defer p.ensuring.Unlock()
	if len(p.list()) >= number {
		return nil // somebody else was faster
	}
	if err := p.apply(ctx, p.statefulSet(Name, number, p.o.Image, program, "--idle")); err != nil {
		return fmt.Errorf("starting the Pods of bases: %w", err)
	}
	p.grow(number)
	return nil
}

// apply makes a StatefulSet, or changes one of this sandbox.
func (p *Pods) apply(ctx context.Context, want *appsv1.StatefulSet) error {
	api := p.client.AppsV1().StatefulSets(namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // its controller writes its status
		there, err := api.Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = api.Create(ctx, want, metav1.CreateOptions{})
		case err == nil:
			err = ours(there, p.o.Sandbox)
			if err != nil {
				return err
			}
			there.Spec.Replicas, there.Spec.Template = want.Spec.Replicas, want.Spec.Template
			_, err = api.Update(ctx, there, metav1.UpdateOptions{})
		}
		return err
	})
}

// ours gives an error for a StatefulSet that another has made.
func ours(s *appsv1.StatefulSet, sandbox string) error {
	if isOurs(s, sandbox) {
		return nil
	}
	return fmt.Errorf("there is a StatefulSet %s/%s that sandbox %q has not made: remove it, or choose another cluster",
		s.Namespace, s.Name, sandbox)
}

func isOurs(s *appsv1.StatefulSet, sandbox string) bool {
	return s.Labels[cluster.ManagedBy] == cluster.MarkName && s.Labels[sandboxLabel] == sandbox
}

// statefulSet has Pods that do nothing, by a program's own command.
func (p *Pods) statefulSet(name string, number int, image string, idle ...string) *appsv1.StatefulSet {
	labels := map[string]string{nameLabel: name, cluster.ManagedBy: cluster.MarkName, sandboxLabel: p.o.Sandbox}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{nameLabel: name, sandboxLabel: p.o.Sandbox}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(number)), //nolint:gosec // at most as many as bases
			Selector: selector, PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](gracePeriod),
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: selector,
					}},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](nobody), RunAsGroup: ptr.To[int64](nobody),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: container, Image: image, ImagePullPolicy: p.o.Pull, Command: idle,
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
}

// Remove removes the StatefulSets of a sandbox, and blocks until Kubernetes has ended their Pods, or 5 s;
// on a busy cluster that may take longer. It is fine where there is none, and leaves those of others.
func Remove(ctx context.Context, client kubernetes.Interface, sandbox string) error {
	var removed []string
	for _, name := range []string{Name, AgentName} {
		was, err := remove(ctx, client, name, sandbox)
		if err != nil {
			return fmt.Errorf("removing StatefulSet %s: %w", name, err)
		}
		if was {
			removed = append(removed, name)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	// those that are left end by themselves
	_ = wait.PollUntilContextCancel(ctx, removePoll, true, func(ctx context.Context) (bool, error) {
		selector := fmt.Sprintf("%s in (%s),%s=%s", nameLabel, strings.Join(removed, ","), sandboxLabel, sandbox)
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		return err == nil && len(list.Items) == 0, err
	})
	return nil
}

// remove reports whether there was one of this sandbox.
func remove(ctx context.Context, client kubernetes.Interface, name, sandbox string) (bool, error) {
	api := client.AppsV1().StatefulSets(namespace)
	there, err := api.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // who may not even look has made none
		return false, nil
	case err != nil:
		return false, err
	case !isOurs(there, sandbox):
		return false, nil
	}
	err = api.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(there.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	return true, nil
}

// explained adds to an error of a Pod what keeps that from running, if anything is known.
func (p *Pods) explained(ctx context.Context, pod string, err error) error {
	if why := p.condition(ctx, pod); why != "" {
		return fmt.Errorf("%w; %s", err, why)
	}
	return err
}

// condition says what keeps a Pod from running; empty = nothing is known.
func (p *Pods) condition(ctx context.Context, pod string) string {
	ctx, cancel := context.WithTimeout(ctx, conditionTime)
	defer cancel()
	there, err := p.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	for _, s := range there.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return "its container waits: " + w.Reason + " " + w.Message
		}
	}
	for _, c := range there.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Message
		}
	}
	return ""
}

// kill ends a Pod at once, and blocks until that is seen; the StatefulSet makes it again.
func (x *pod) kill(ctx context.Context) error {
	before, _ := x.state()
	err := x.pods.client.CoreV1().Pods(namespace).Delete(ctx, x.name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("killing Pod %s: %w", x.name, err)
	}
	for {
		now, change := x.state()
		if now == nil || now != before {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of Pod %s: %w", x.name, context.Cause(ctx))
		}
	}
}

// state is its connection, which is nil while it is away, and what is closed at the next change.
func (x *pod) state() (connection, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn, x.change
}
