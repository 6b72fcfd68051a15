package why

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// ErrNotFound says, wrapped, that the target is not there.
var ErrNotFound = errors.New("not found")

// notFound is what is wrong with a target that could not be read, and what may have been meant.
func (g *gatherer) notFound(ctx context.Context, err error) error {
	t := g.Target
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s in namespace %s: %w", t, t.Namespace, err)
	}
	if t.Kind == KindPod {
		for _, w := range []Kind{KindDeployment, KindDaemonSet, KindStatefulSet} {
			if slices.Contains(g.names(ctx, w), t.Name) {
				return fmt.Errorf("%s is %w in namespace %s, but %s is there: ask for that one", t, ErrNotFound, t.Namespace, Target{Kind: w, Name: t.Name})
			}
		}
	}
	meant := plain.Meant(t.Name, g.names(ctx, t.Kind))
	if meant == "" {
		meant = "; see: kubectl get " + string(t.Kind) + "s -A"
	}
	return fmt.Errorf("%s is %w in namespace %s%s", t, ErrNotFound, t.Namespace, meant)
}

// names are those of all objects of a kind in the target's namespace; none if they cannot be read.
func (g *gatherer) names(ctx context.Context, kind Kind) (names []string) {
	namespace, apps := g.Target.Namespace, g.client.AppsV1()
	switch kind {
	case KindPod:
		if found, err := list(ctx, g.client.CoreV1().Pods(namespace).List, metav1.ListOptions{}); err == nil {
			names = namesOf(found.Items)
		}
	case KindDeployment:
		if found, err := list(ctx, apps.Deployments(namespace).List, metav1.ListOptions{}); err == nil {
			names = namesOf(found.Items)
		}
	case KindDaemonSet:
		if found, err := list(ctx, apps.DaemonSets(namespace).List, metav1.ListOptions{}); err == nil {
			names = namesOf(found.Items)
		}
	case KindStatefulSet:
		if found, err := list(ctx, apps.StatefulSets(namespace).List, metav1.ListOptions{}); err == nil {
			names = namesOf(found.Items)
		}
	case KindNode:
		for _, n := range g.Bases {
			names = append(names, n.Name, hostOf(&n), n.Annotations[labels.Identity])
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// namesOf are the names of objects.
func namesOf[T any, P interface {
	*T
	metav1.Object
}](items []T) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = P(&items[i]).GetName()
	}
	return names
}

// node finds a Node by its name, or by the host name or identity of its base.
func (g *gatherer) node(ctx context.Context) error {
	name := g.Target.Name
	for i := range g.Bases {
		if n := &g.Bases[i]; slices.Contains([]string{n.Name, hostOf(n), n.Annotations[labels.Identity]}, name) {
			g.Node = n
			return nil
		}
	}
	node, err := get(ctx, g.client.CoreV1().Nodes().Get, name)
	switch {
	case apierrors.IsNotFound(err):
		meant := plain.Meant(name, g.names(ctx, KindNode))
		if meant == "" {
			meant = "; see: kubectl get nodes"
		}
		return fmt.Errorf("%s is %w: no Node has that name, and no base that host name or identity%s", g.Target, ErrNotFound, meant)
	case err != nil:
		return fmt.Errorf("reading %s: %w", g.Target, err)
	}
	g.Node = node
	return nil
}

// hostOf is the host name of the base behind a Node.
func hostOf(n *corev1.Node) string {
	return n.Labels[corev1.LabelHostname]
}
