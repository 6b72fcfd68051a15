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
	// Name is the name of the StatefulSet that runs bases. The name is constant, because only one sandbox can use a
	// cluster at a time.
	Name = "koupsandbox-bases"
	// AgentName is the name of the StatefulSet that runs the traffic agent.
	AgentName = "koupsandbox-agent"
	// imageName is the name of the image that is loaded onto the nodes. The image has a tag that identifies its
	// content.
	imageName = "localhost/koupsandbox/fakebase"

	// namespace is the namespace of the Pods. It exists in every cluster.
	namespace    = metav1.NamespaceDefault
	nameLabel    = "app.kubernetes.io/name"
	sandboxLabel = cluster.SandboxLabel
	container    = "program"
	program      = "/fakebase"
	// nonRootUID is the user ID of the process, the same as in the image.
	nonRootUID = 65532
	// gracePeriod is the termination grace period in seconds. It is short because an idle process exits quickly.
	gracePeriod = 2
	// removeInterval is the interval between checks whether the Pods have terminated. removeTimeout is the timeout
	// for their termination.
	removeInterval, removeTimeout = 100 * time.Millisecond, 5 * time.Second
	// podReasonTimeout is the timeout of a request for the status of a Pod.
	podReasonTimeout = 2 * time.Second
)

// Image returns an image for the nodes that contains the fakebase binary. It writes the only layer of the image to
// dir.
func Image(binary, dir string) (*image.Image, error) {
	if err := image.IsStatic(binary); err != nil {
		return nil, fmt.Errorf("%s cannot run in a Pod: %w; build it with: make build, or use --base-runtime process",
			binary, err)
	}
	return image.FromBinary(imageName, binary, dir)
}

// Ensure scales the StatefulSet to at least replicas Pods with the current settings. It never reduces the number of
// Pods. It does not wait for the Pods. It returns an error if the StatefulSet belongs to another owner.
func (p *Pods) Ensure(ctx context.Context, replicas int) error {
	p.ensureMu.Lock()
	defer p.ensureMu.Unlock()
	if len(p.list()) >= replicas {
		return nil // another caller has added the Pods
	}
	if err := p.apply(ctx, p.statefulSet(Name, replicas, p.o.Image, program, "--idle")); err != nil {
		return fmt.Errorf("applying the StatefulSet of bases: %w", err)
	}
	p.addPods(replicas)
	return nil
}

// apply creates a StatefulSet, or updates the existing StatefulSet if it belongs to this sandbox.
func (p *Pods) apply(ctx context.Context, want *appsv1.StatefulSet) error {
	api := p.client.AppsV1().StatefulSets(namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the StatefulSet controller writes the status
		existing, err := api.Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = api.Create(ctx, want, metav1.CreateOptions{})
		case err == nil:
			err = checkOwned(existing, p.o.Sandbox)
			if err != nil {
				return err
			}
			existing.Spec.Replicas, existing.Spec.Template = want.Spec.Replicas, want.Spec.Template
			_, err = api.Update(ctx, existing, metav1.UpdateOptions{})
		}
		return err
	})
}

// checkOwned returns an error if a StatefulSet does not belong to this sandbox.
func checkOwned(s *appsv1.StatefulSet, sandbox string) error {
	if isOwned(s, sandbox) {
		return nil
	}
	return fmt.Errorf("StatefulSet %s/%s exists and does not belong to sandbox %q; remove it, or choose another "+
		"cluster", s.Namespace, s.Name, sandbox)
}

func isOwned(s *appsv1.StatefulSet, sandbox string) bool {
	return s.Labels[cluster.ManagedBy] == cluster.MarkName && s.Labels[sandboxLabel] == sandbox
}

// statefulSet returns a StatefulSet whose Pods run only the command idle, until processes are started in them.
func (p *Pods) statefulSet(name string, replicas int, image string, idle ...string) *appsv1.StatefulSet {
	labels := map[string]string{nameLabel: name, cluster.ManagedBy: cluster.MarkName, sandboxLabel: p.o.Sandbox}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{nameLabel: name, sandboxLabel: p.o.Sandbox}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(replicas)), //nolint:gosec // at most the number of bases
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
						RunAsNonRoot: ptr.To(true),
						RunAsUser:    ptr.To[int64](nonRootUID), RunAsGroup: ptr.To[int64](nonRootUID),
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

// Remove deletes the StatefulSets of a sandbox, and waits up to 5 s for their Pods to terminate. It ignores
// StatefulSets of other owners.
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
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	// after the timeout, the remaining Pods end without supervision
	_ = wait.PollUntilContextCancel(ctx, removeInterval, true, func(ctx context.Context) (bool, error) {
		selector := fmt.Sprintf("%s in (%s),%s=%s", nameLabel, strings.Join(removed, ","), sandboxLabel, sandbox)
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		return err == nil && len(list.Items) == 0, err
	})
	return nil
}

// remove deletes a StatefulSet of this sandbox and reports whether it existed.
func remove(ctx context.Context, client kubernetes.Interface, name, sandbox string) (bool, error) {
	api := client.AppsV1().StatefulSets(namespace)
	existing, err := api.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // without read permission, the sandbox has created none
		return false, nil
	case err != nil:
		return false, err
	case !isOwned(existing, sandbox):
		return false, nil
	}
	err = api.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(existing.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	return true, nil
}

// withPodReason adds the reason why a Pod is not running to err. If the reason is unknown, it returns err unchanged.
func (p *Pods) withPodReason(ctx context.Context, pod string, err error) error {
	if reason := p.podReason(ctx, pod); reason != "" {
		return fmt.Errorf("%w; %s", err, reason)
	}
	return err
}

// podReason returns the reason why a Pod is not running, or an empty string if the reason is unknown.
func (p *Pods) podReason(ctx context.Context, pod string) string {
	ctx, cancel := context.WithTimeout(ctx, podReasonTimeout)
	defer cancel()
	status, err := p.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	for _, s := range status.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return "its container is waiting: " + w.Reason + " " + w.Message
		}
	}
	for _, c := range status.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Message
		}
	}
	return ""
}

// kill deletes a Pod without a grace period and blocks until its connection has ended. The StatefulSet recreates the
// Pod.
func (x *pod) kill(ctx context.Context) error {
	before, _ := x.connState()
	err := x.pods.client.CoreV1().Pods(namespace).Delete(ctx, x.name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("killing Pod %s: %w", x.name, err)
	}
	for {
		now, change := x.connState()
		if now == nil || now != before {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("waiting for Pod %s to terminate: %w", x.name, context.Cause(ctx))
		}
	}
}

// connState returns the connection to the Pod, which is nil while the Pod is unavailable. It also returns a channel
// that is closed when the connection changes.
func (x *pod) connState() (connection, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn, x.change
}
