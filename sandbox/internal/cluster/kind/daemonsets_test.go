package kind

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

type requirements = []corev1.NodeSelectorRequirement

var (
	everything = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	off        = corev1.NodeSelectorRequirement{Key: labels.Component, Operator: corev1.NodeSelectorOpNotIn,
		Values: []string{labels.Vnode}}
)

// affinity returns a required node affinity with the given terms, of which a Node must match at least one.
func affinity(terms ...requirements) *corev1.Affinity {
	s := &corev1.NodeSelector{}
	for _, t := range terms {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: t})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
}

// daemonSet returns a new DaemonSet without a status.
func daemonSet(tolerations []corev1.Toleration, a *corev1.Affinity) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "n", UID: "d", Generation: 1}}
	d.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": "d"})
	d.Spec.Template.Labels = map[string]string{"app": "d"}
	d.Spec.Template.Spec.Tolerations, d.Spec.Template.Spec.Affinity = tolerations, a
	return d
}

func TestRestrictAll(t *testing.T) {
	linux := corev1.NodeSelectorRequirement{Key: "kubernetes.io/os", Operator: corev1.NodeSelectorOpIn,
		Values: []string{"linux"}}
	bases := corev1.NodeSelectorRequirement{Key: labels.Component, Operator: corev1.NodeSelectorOpExists}
	for name, tc := range map[string]struct {
		tolerations  []corev1.Toleration
		before, want *corev1.Affinity
		change       func(*appsv1.DaemonSet)
		updates      int
	}{
		"tolerates everything": {everything, nil, affinity(requirements{off}), nil, 1},
		"has an affinity": {everything, affinity(requirements{linux}),
			affinity(requirements{linux, off}), nil, 1},
		"has alternative terms": {everything, affinity(requirements{linux}, requirements{linux}),
			affinity(requirements{linux, off}, requirements{linux, off}), nil, 1},
		"has an empty term, which matches no Node": {everything, affinity(requirements{linux}, nil),
			affinity(requirements{linux, off}, nil), nil, 1},
		"excludes bases": {everything, affinity(requirements{off}), affinity(requirements{off}), nil, 0},
		"requires bases": {everything, affinity(requirements{bases}), affinity(requirements{bases}), nil, 0},
		"selects bases": {everything, nil, nil, func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.NodeSelector = map[string]string{labels.Component: labels.Vnode}
		}, 0},
		"has the module label": {everything, nil, nil,
			func(d *appsv1.DaemonSet) { d.Spec.Template.Labels[labels.Component] = labels.Module }, 0},
		"has the older module label": {everything, nil, nil,
			func(d *appsv1.DaemonSet) { d.Labels = map[string]string{labels.OlderComponent: labels.Module} }, 0},
		"tolerates one taint only": {[]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, nil, nil,
			nil, 0},
		"tolerates all NoExecute taints": {[]corev1.Toleration{
			{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			nil, affinity(requirements{off}), nil, 1},
		"tolerates all NoSchedule taints": {
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, nil, nil,
			nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := daemonSet(tc.tolerations, tc.before)
			if tc.change != nil {
				tc.change(d)
			}
			client := fake.NewClientset(d)
			check.Must(t, newGuard(client, slog.New(slog.DiscardHandler)).restrictAll(t.Context()))
			got, err := client.AppsV1().DaemonSets("n").Get(t.Context(), "d", metav1.GetOptions{})
			check.Must(t, err)
			if diff := cmp.Diff(tc.want, got.Spec.Template.Spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			updates := 0
			for _, a := range client.Actions() {
				if a.GetVerb() == "update" {
					updates++
				}
			}
			if updates != tc.updates {
				t.Errorf("%d updates, want %d", updates, tc.updates)
			}
		})
	}
}

// TestNewDaemonSetIsRestricted checks that a new DaemonSet is restricted. After the DaemonSet controller has observed
// the change, the Pods on the Nodes of bases must be removed.
func TestNewDaemonSetIsRestricted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := func(name string, l map[string]string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l}}
		}
		pod := func(name, node string, owner types.UID) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name),
				Labels: map[string]string{"app": "d"}}}
			p.OwnerReferences = []metav1.OwnerReference{
				{Kind: "DaemonSet", Name: "d", UID: owner, Controller: ptr.To(true)}}
			p.Spec.NodeName = node
			return p
		}
		client := fake.NewClientset(node("real", nil),
			node("vnode.a", map[string]string{labels.Component: labels.Vnode}),
			pod("on-real", "real", "d"), pod("on-base", "vnode.a", "d"), pod("of-another", "vnode.a", "e"))
		pods := func() (names []string) {
			list, err := client.CoreV1().Pods("n").List(t.Context(), metav1.ListOptions{})
			check.Must(t, err)
			for _, p := range list.Items {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			return names
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			newGuard(client, slog.New(slog.DiscardHandler)).run(ctx)
		}()
		defer func() { cancel(); <-ended }()
		synctest.Wait()

		api := client.AppsV1().DaemonSets("n")
		if _, err := api.Create(t.Context(), daemonSet(everything, nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d, err := api.Get(t.Context(), "d", metav1.GetOptions{})
		check.Must(t, err)
		if diff := cmp.Diff(affinity(requirements{off}), d.Spec.Template.Spec.Affinity); diff != "" {
			t.Fatalf("affinity (-want +got):\n%s", diff)
		}
		// Simulate the API server and the DaemonSet controller, which may still create Pods for the older generation.
		d.Generation = 2
		d.Status.ObservedGeneration = 1
		d, err = api.Update(t.Context(), d, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"of-another", "on-base", "on-real"}, pods()); diff != "" {
			t.Errorf("Pods before the controller has observed the change (-want +got):\n%s", diff)
		}
		d.Status.ObservedGeneration = 2
		_, err = api.Update(t.Context(), d, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"of-another", "on-real"}, pods()); diff != "" {
			t.Errorf("Pods (-want +got):\n%s", diff)
		}
	})
}

// TestGuardRetries checks that the guard retries rejected updates.
func TestGuardRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, attempts := fake.NewClientset(daemonSet(everything, nil)), 0
		client.PrependReactor("update", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
			attempts++
			return attempts <= 2, nil, errors.New("rejected")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*guardRetry)
		defer cancel()
		newGuard(client, slog.New(slog.DiscardHandler)).run(ctx)
		d, err := client.AppsV1().DaemonSets("n").Get(t.Context(), "d", metav1.GetOptions{})
		check.Must(t, err)
		if diff := cmp.Diff(affinity(requirements{off}), d.Spec.Template.Spec.Affinity); diff != "" {
			t.Errorf("affinity after %d attempts (-want +got):\n%s", attempts, diff)
		}
	})
}

// TestDaemonSetForBasesKeepsItsPods checks that the guard keeps the Pods of a DaemonSet that selects bases, even if
// the DaemonSet tolerates every taint.
func TestDaemonSetForBasesKeepsItsPods(t *testing.T) {
	d := daemonSet(everything,
		affinity(requirements{
			{Key: labels.Component, Operator: corev1.NodeSelectorOpIn, Values: []string{labels.Vnode}}}))
	d.Status.ObservedGeneration = d.Generation
	client := fake.NewClientset(d)
	check.Must(t, newGuard(client, slog.New(slog.DiscardHandler)).restrictAll(t.Context()))
	for _, a := range client.Actions() {
		if a.GetResource().Resource != "daemonsets" || a.GetVerb() != "list" && a.GetVerb() != "get" {
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}
