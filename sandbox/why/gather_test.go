package why_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// cluster returns a client for a cluster with two bases, a controller, a Deployment, and Pods with and without a
// Node.
func cluster() *fake.Clientset {
	one, two := base(1, "base", "1.0.0"), base(2, "order", "1.0.0")
	lease := controller("controller-1", "dev", 0)
	lease.Namespace, lease.Name = corev1.NamespaceNodeLease, "module-controller.dev.controller-1"
	d := deployment(func(d *appsv1.Deployment) {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "biz1"}}
		d.Status.ReadyReplicas = 0
		d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "2"}
	}).Deployment
	rs := func(name, revision string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "biz1-" + name,
			UID:         types.UID("uid-rs-" + name),
			Labels:      map[string]string{"app": "biz1", appsv1.DefaultDeploymentUniqueLabelKey: name},
			Annotations: map[string]string{"deployment.kubernetes.io/revision": revision},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}}
	}
	older, newer := rs("old", "1"), rs("new", "2")
	of := func(name string, rs *appsv1.ReplicaSet, change ...func(*corev1.Pod)) *corev1.Pod {
		return pod(append(change, func(p *corev1.Pod) {
			p.Name = name
			p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
			p.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		})...)
	}
	return fake.NewClientset(&one, &two, &lease, d, older, newer,
		of("biz1-0-old", older), of("biz1-new-a", newer, on(1), runs(true)), of("biz1-new-b", newer),
		pod(func(p *corev1.Pod) { p.Name = "stranger" }),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
}

// has reports whether text contains each of the words, which are separated by spaces.
func has(text, words string) bool {
	return !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !strings.Contains(text, word) })
}

func target(t *testing.T, text string) why.Target {
	t.Helper()
	target, err := why.ParseTarget(text, "default")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestGather checks that Gather only reads objects, sends at most 20 requests, and reads everything that Explain
// needs.
func TestGather(t *testing.T) {
	for text, want := range map[string]struct {
		reason        why.Reason
		pod, node     string
		pods, onBases int
	}{
		"biz1-new-a":      {why.PodReady, "biz1-new-a", "vnode.base-1-id", 0, 4},
		"pod/biz1-new-b":  {why.SchedulerRefuses, "biz1-new-b", "", 0, 4},
		"deployment/biz1": {why.PodNotReady, "biz1-new-b", "", 3, 4},
		"node/base-2":     {why.NodeReady, "", "vnode.base-2-id", 0, 0},
		"node/base-2-id":  {why.NodeReady, "", "vnode.base-2-id", 0, 0},
		"node/worker":     {why.OrdinaryNode, "", "worker", 0, 0},
	} {
		t.Run(text, func(t *testing.T) {
			client := cluster()
			s, err := why.Gather(t.Context(), client, target(t, text))
			if err != nil {
				t.Fatal(err)
			}
			got := want
			got.reason, got.pod, got.node, got.pods, got.onBases = why.Explain(s, now).Reason, "", "", len(s.Pods), len(
				s.OnBases)
			if s.Pod != nil {
				got.pod = s.Pod.Name
			}
			if s.Node != nil {
				got.node = s.Node.Name
			}
			if got != want {
				t.Errorf("Gather and Explain return %+v, want %+v", got, want)
			}
			if (s.Template != nil) != (text == "pod/biz1-new-b") {
				t.Errorf("template = %v", s.Template)
			}
			if len(s.Bases) != 2 || len(s.Controllers) != 1 || len(s.Unread) > 0 {
				t.Errorf("bases %d, controllers %d, unread %q", len(s.Bases), len(s.Controllers), s.Unread)
			}
			for _, a := range client.Actions() {
				if !slices.Contains([]string{"get", "list"}, a.GetVerb()) {
					t.Errorf("Gather made a write request: %s %s", a.GetVerb(), a.GetResource().Resource)
				}
			}
			if n := len(client.Actions()); n == 0 || n > 20 {
				t.Errorf("Gather made %d requests, want 1 to 20", n)
			}
		})
	}
}

// TestGatherSuggestsSimilarNames checks that the error for a target that does not exist suggests similar names.
func TestGatherSuggestsSimilarNames(t *testing.T) {
	for text, want := range map[string]string{
		"biz1":                 "deployment/biz1",
		"biz1-new-aa":          "biz1-new-a?",
		"pod/nothing-like-it":  "kubectl get pods -A",
		"deploy/bizl":          "biz1?",
		"statefulset/biz1":     "kubectl get statefulsets -A",
		"node/base-3":          "base-1?",
		"node/something-other": "kubectl get nodes",
	} {
		_, err := why.Gather(t.Context(), cluster(), target(t, text))
		if !errors.Is(err, why.ErrNotFound) || !strings.HasPrefix(err.Error(), target(t, text).String()+" ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Gather of %s: error = %v, want %s", text, err, want)
		}
	}
}

// TestGatherBases checks that GatherBases fails if it cannot read the bases or the Pods on them.
func TestGatherBases(t *testing.T) {
	client := cluster()
	s, err := why.GatherBases(t.Context(), client)
	if err != nil || len(s.Bases) != 2 || len(s.OnBases) != 4 || len(s.Controllers) != 1 {
		t.Errorf("GatherBases = %+v, %v", s, err)
	}
	for _, resource := range []string{"nodes", "pods"} {
		client := cluster()
		client.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "",
				errors.New("no permission"))
		})
		if _, err := why.GatherBases(t.Context(), client); err == nil ||
			!strings.Contains(err.Error(), "no permission") {
			t.Errorf("without permission to read %s: error = %v", resource, err)
		}
	}
}

// TestExplainReportsUnreadObjects checks that objects that cannot be read are reported as evidence, and are not
// treated as missing.
func TestExplainReportsUnreadObjects(t *testing.T) {
	client := cluster()
	for _, resource := range []string{"leases", "nodes"} {
		client.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "",
				errors.New("no permission"))
		})
	}
	s, err := why.Gather(t.Context(), client, target(t, "biz1-new-a"))
	if err != nil {
		t.Fatal(err)
	}
	s.Pod.Status.Conditions, s.Pod.Status.ContainerStatuses = nil, nil
	a := why.Explain(s, now)
	var unread []string
	for _, e := range a.Evidence {
		if e.About == "unread" {
			unread = append(unread, e.Text)
		}
	}
	denied := func(resource, text string) bool {
		return strings.Contains(text, resource) && strings.HasSuffix(text, "no permission")
	}
	if want := []string{"nodes", "leases", "nodes"}; !slices.EqualFunc(want, unread, denied) ||
		a.Reason != why.NotTakenUp {
		t.Errorf("reason = %s, unread = %q, want %q", a.Reason, unread, want)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"pods/a": "pod/a in default", "deployment.apps/a": "deployment/a in default", "ds/a": "daemonset/a in default",
		"StatefulSet/a": "statefulset/a in default", "no/a": "node/a in ",
		"podd/a": `"podd" pod, node, deployment, daemonset, statefulset; pod?`, "pod/": `"pod/" pod/NAME`,
		"pod/a/b": `"pod/a/b" pod/NAME`,
	} {
		target, err := why.ParseTarget(text, "default")
		got := fmt.Sprintf("%s in %s", target, target.Namespace)
		if err == nil && got != want || err != nil && !has(err.Error(), want) {
			t.Errorf("ParseTarget(%q) = %s (%v), want %s", text, got, err, want)
		}
	}
}

// TestEvidenceShowsMessagesOnce checks that a message that conditions, containers and Events have in common is shown
// only once.
func TestEvidenceShowsMessagesOnce(t *testing.T) {
	const message = "no bean"
	p := pod(on(1), waits("InstallModuleFailed", message),
		condition(corev1.ContainersReady, corev1.ConditionFalse, "InstallModuleFailed", message))
	a := why.Explain(ofPod(p, events(event(p.UID, "Pod", p.Name, "InstallModuleFailed", message),
		event(p.UID, "Pod", p.Name, "Replaced", "another message"))), now)
	var got []string
	for _, e := range a.Evidence {
		if strings.Contains(e.Text, message) || e.About == "events" {
			got = append(got, e.Text)
		}
	}
	want := []string{"Ready=False InstallModuleFailed: no bean", "Pod biz1-x Replaced: another message",
		"Pod biz1-x InstallModuleFailed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}

// TestEvidenceGroupsManyBases checks that many bases are grouped by the check that they fail.
func TestEvidenceGroupsManyBases(t *testing.T) {
	var all []corev1.Node
	for i := range 3000 {
		all = append(all, base(i, "order", "1.0.0"))
	}
	all = append(all, base(5000, "base", "1.0.0", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	a := why.Explain(ofPod(pod(), bases(all...)), now)
	var got []string
	for _, e := range a.Evidence {
		if e.About == "bases" {
			got = append(got, e.Text)
		}
	}
	want := []string{"3000 base-0: " + labels.BaseName + "=base", "1 base-5000: cordoned"}
	if !slices.EqualFunc(got, want, has) || a.Reason != why.BaseCordoned {
		t.Errorf("reason = %s, evidence = %q, want %q", a.Reason, got, want)
	}
}
