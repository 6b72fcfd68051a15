package why

import (
	"context"
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// act does something to a component of the sandbox.
func act(t *testing.T, component string, action sandbox.Action) {
	t.Helper()
	check.Must(t, up.Act(t.Context(), sandbox.ActRequest{Component: component, Action: action}))
}

// lease writes the Lease of a controller that is not there.
func lease(ctx context.Context, t *testing.T, holder, env string) {
	t.Helper()
	now := metav1.NowMicro()
	_, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "module-controller." + env + "." + holder, Labels: map[string]string{labels.Component: labels.ControllerLease, labels.Env: env}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &now},
	}, metav1.CreateOptions{})
	check.Must(t, err)
}

// says looks whether the command itself answers the same.
func says(t *testing.T, s *scene, target string, want why.Reason) {
	t.Helper()
	r, err := program.Run(s.ctx, "why", target, "-n", s.name, "-o", "json")
	check.Must(t, err)
	var a why.Answer
	if err := json.Unmarshal([]byte(r.Out), &a); err != nil || r.Status != 0 || a.Reason != want {
		t.Errorf("koupsandbox why %s: %v: %+v", target, err, r)
	}
}

// outages: while a part of the platform is away, the answer names it.
func outages(t *testing.T) {
	s := newScene(t, "why-outage", &v1alpha1.BaseSet{}).in(t, true)
	s.pod("serves")
	s.becomes("pod/serves", why.PodReady)

	says(t, s, "pod/serves", why.PodReady)
	act(t, "kube-scheduler", "stop")
	s.pod("unseen")
	s.becomes("pod/unseen", why.NotScheduledYet, "the scheduler has not tried", "HOST fits")
	act(t, "kube-scheduler", "start")

	act(t, "kube-controller-manager", "stop")
	s.deployment(1, nil)
	s.becomes("deployment/x", why.WorkloadNotSeen, "kube-controller-manager")
	act(t, "kube-controller-manager", "start")
	s.becomes("deployment/x", why.WorkloadReady)

	act(t, "broker", "stop")
	s.pod("unheard", release("2.0.0"))
	s.becomes("pod/unheard", why.ControllerBlind, "TunnelDown", "HOST")
	s.becomes("node/HOST", why.ControllerBlind, "TunnelDown")
	act(t, "broker", "start")
	s.becomes("pod/unheard", why.PodReady)

	act(t, "module-controller", "stop")
	s.pod("alone", named("alone"))
	s.becomes("pod/alone", why.ControllerNotRunning, "nobody tells HOST")
	s.becomes("node/HOST", why.ControllerNotRunning, "nobody tells HOST")
	s.pod("intolerant", func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[:1] })
	s.becomes("pod/intolerant", why.ControllerNotRunning, "schedule.koupleless.io/node-env=dev:NoExecute")
	s.deletePod("unheard")
	if a := s.becomes("pod/unheard", why.TerminatingUnserved, "nobody uninstalls"); a.Because != why.ControllerNotRunning {
		t.Errorf("it is because of %q: %s", a.Because, a.Cause)
	}
	check.Must(t, client.AppsV1().Deployments(s.name).Delete(s.ctx, "x", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}))
	check.Eventually(s.ctx, t, patience, "the Deployment is gone", func(ctx context.Context) error {
		d := (&scene{ctx: ctx, t: t, name: s.name}).peer()
		_, err := client.AppsV1().Deployments(s.name).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
	s.becomes("deployment/x", why.PeerNotFollowed, "HOST would do")

	lease(s.ctx, t, "elsewhere", "test")
	s.becomes("pod/alone", why.NoControllerForEnvironment, "environment dev", "controllers of test")
	lease(s.ctx, t, "another", "dev")
	s.becomes("pod/alone", why.NobodyServesBase, "HOST is served by the controller")

	s.pod("late", named("late"), selects("zone", "east"))
	check.Must(t, client.CoreV1().Nodes().DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.Vnode}))
	s.becomes("pod/late", why.NoBases, "there are no bases")
	s.becomes("pod/alone", why.NodeGone, "NODE")
	check.Must(t, client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.ControllerLease}))
	s.becomes("pod/late", why.ControllerNotRunning, "there are no bases, and no module controller runs")
}

// peer is a peer Deployment, called x, without replicas.
func (s *scene) peer() *appsv1.Deployment {
	t := s.template()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "biz"}}, Template: t}}
	peer(d)
	return d
}
