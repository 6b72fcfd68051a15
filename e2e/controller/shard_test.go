package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

const leaseDuration = 4 * time.Second

// Controllers of a cluster share the bases. When one crashes or hangs, another
// takes its bases over, once, without touching what is installed (behaviour 10).
func TestSharding(t *testing.T) {
	t.Parallel()
	a, ns, name := newArea(t), namespace(t), kind()
	env := map[string]string{
		"IS_CLUSTER": "true", "LEASE_DURATION": leaseDuration.String(),
		"HEALTH_INTERVAL": "1s", "LIST_INTERVAL": "1s", "MODULE_DRAIN": "200ms",
	}
	first, second := a.controller(t, "first", env), a.controller(t, "second", env)
	bases := make([]*base, 6)
	for i := range bases { // one after the other, so that each sees what the other has
		bases[i] = a.base(t, fakebase.Options{Name: name, Activation: fakebase.ActivateNewModule})
		nodesReady(t, bases[i])
	}
	held := map[string]int{}
	nodes, err := nodesOf(t.Context(), bases)
	must(t, err)
	for _, n := range nodes {
		held[holder(n)]++
	}
	if held[first.id] < 2 || held[second.id] < 2 || len(held) != 2 {
		t.Errorf("the controllers have these numbers of bases: %v", held)
	}

	spec := one("shared", "1.0.0", name)
	module.OnePerBase(&spec)
	d := deployment(t, ns, "shared", int32(len(bases)), spec) //nolint:gosec // a handful
	rolled(t, d, bases, "1.0.0")
	before := podNames(t, ns)
	undisturbed := func() {
		t.Helper()
		if err := same(before, podNames(t, ns)); err != nil {
			t.Errorf("the Pods %v", err)
		}
		for _, b := range bases {
			if n := b.times("shared:1.0.0", fakebase.StateResolved); n != 1 {
				t.Errorf("base %s began %d installs", b.Identity(), n)
			}
		}
	}

	// A crash.
	first.kill(t)
	holdsAll(t, second, bases)
	undisturbed()

	// The other one hangs for longer than its lease, and a new one has its bases then.
	third := a.controller(t, "third", env)
	second.signal(t, syscall.SIGSTOP)
	holdsAll(t, third, bases)
	fences, err := fencesOf(t.Context(), bases)
	must(t, err)
	second.signal(t, syscall.SIGCONT)
	woken := time.Now()
	eventually(t, "the second notices", second.ready)
	eventually(t, "the third serves its bases as if nothing had happened", func(ctx context.Context) error {
		nodes, err := nodesOf(ctx, bases)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if holder(n) != third.id {
				t.Fatalf("%s serves the base of %s again", holder(n), n.Name)
			}
		}
		if age := time.Since(woken); age < 2*leaseDuration {
			return fmt.Errorf("it has been for %s", age)
		}
		return nil
	})
	now, err := fencesOf(t.Context(), bases)
	must(t, err)
	if err := same(fences, now); err != nil {
		t.Errorf("how often bases changed hands %v", err)
	}
	undisturbed()

	// What was taken over is served.
	upgrade(t, d, "2.0.0")
	rolled(t, d, bases, "2.0.0")
	for _, b := range bases {
		if n := b.times("shared:2.0.0", fakebase.StateResolved); n != 1 {
			t.Errorf("base %s began %d installs of the second version", b.Identity(), n)
		}
	}
}

// holdsAll waits until a controller serves all bases. How long that takes is measured by the benchmark.
func holdsAll(t *testing.T, p *process, bases []*base) {
	t.Helper()
	eventually(t, p.id+" has all bases", func(ctx context.Context) error {
		nodes, err := nodesOf(ctx, bases)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if holder(n) != p.id {
				return fmt.Errorf("%s has the base of %s", holder(n), n.Name)
			}
		}
		return nil
	})
}

func nodesOf(ctx context.Context, bases []*base) ([]*corev1.Node, error) {
	nodes := make([]*corev1.Node, len(bases))
	for i, b := range bases {
		var err error
		if nodes[i], err = client.CoreV1().Nodes().Get(ctx, b.node(), metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func holder(n *corev1.Node) string { return cmp.Or(n.Annotations[labels.Holder], "nobody") }

func fencesOf(ctx context.Context, bases []*base) (map[string]string, error) {
	nodes, err := nodesOf(ctx, bases)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for _, n := range nodes {
		list[n.Name] = n.Annotations[labels.Fence]
	}
	return list, nil
}

// podNames are the Pods of a namespace, sorted.
func podNames(t *testing.T, ns string) []string {
	t.Helper()
	list, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	names := map[string]bool{}
	for _, p := range list.Items {
		names[p.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
