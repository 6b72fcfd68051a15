package why

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// ErrNotFound is wrapped in the error for a target that does not exist.
var ErrNotFound = errors.New("not found")

// notFound returns the error for a target that could not be read. It suggests similar names.
func (g *gatherer) notFound(ctx context.Context, err error) error {
	t := g.Target
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s in namespace %s: %w", t, t.Namespace, err)
	}
	if t.Kind == KindPod {
		for _, w := range []Kind{KindDeployment, KindDaemonSet, KindStatefulSet} {
			if slices.Contains(g.names(ctx, w), t.Name) {
				return fmt.Errorf("%s is %w in namespace %s; did you mean %s?", t, ErrNotFound,
					t.Namespace, Target{Kind: w, Name: t.Name})
			}
		}
	}
	meant := plain.DidYouMean(t.Name, g.names(ctx, t.Kind))
	if meant == "" {
		meant = "; see: kubectl get " + string(t.Kind) + "s -A"
	}
	return fmt.Errorf("%s is %w in namespace %s%s", t, ErrNotFound, t.Namespace, meant)
}

// names returns the names of all objects of a kind in the target's namespace, or nil if they cannot be read. For a
// Node, the names include the host name and the identity of the Node's base.
func (g *gatherer) names(ctx context.Context, kind Kind) (names []string) {
	if kind == KindNode {
		for i := range g.Bases {
			names = append(names, nodeNames(&g.Bases[i])...)
		}
		return names
	}
	objects, err := g.list(ctx, kind)
	if err != nil {
		return nil
	}
	_ = meta.EachListItem(objects, func(o runtime.Object) error {
		names = append(names, o.(metav1.Object).GetName())
		return nil
	})
	return names
}

func (g *gatherer) list(ctx context.Context, kind Kind) (runtime.Object, error) {
	namespace, apps, all := g.Target.Namespace, g.client.AppsV1(), metav1.ListOptions{}
	switch kind {
	case KindDeployment:
		return apps.Deployments(namespace).List(ctx, all)
	case KindDaemonSet:
		return apps.DaemonSets(namespace).List(ctx, all)
	case KindStatefulSet:
		return apps.StatefulSets(namespace).List(ctx, all)
	case KindPod, KindNode:
	}
	return g.client.CoreV1().Pods(namespace).List(ctx, all)
}

// nodeNames returns the names by which users can refer to the Node of a base.
func nodeNames(n *corev1.Node) []string {
	return slices.DeleteFunc([]string{n.Name, hostOf(n), n.Annotations[labels.Identity]},
		func(name string) bool { return name == "" })
}

// node finds the target Node by its own name, or by the host name or the identity of its base.
func (g *gatherer) node(ctx context.Context) error {
	name := g.Target.Name
	for i := range g.Bases {
		if n := &g.Bases[i]; slices.Contains(nodeNames(n), name) {
			g.Node = n
			return nil
		}
	}
	node, err := g.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		meant := plain.DidYouMean(name, g.names(ctx, KindNode))
		if meant == "" {
			meant = "; see: kubectl get nodes"
		}
		return fmt.Errorf("%s is %w: no Node has that name, and no base has that host name or identity%s", g.Target,
			ErrNotFound, meant)
	case err != nil:
		return fmt.Errorf("reading %s: %w", g.Target, err)
	}
	g.Node = node
	return nil
}

// hostOf returns the host name of the base to which a Node belongs.
func hostOf(n *corev1.Node) string {
	return n.Labels[corev1.LabelHostname]
}
