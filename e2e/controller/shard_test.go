package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

const (
	leaseDuration = 4 * time.Second
	takeover      = leaseDuration + 10*time.Second
)

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
	leases, err := leasesOf(t.Context(), bases)
	must(t, err)
	for _, l := range leases {
		held[holder(l)]++
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
	f := record(t, ns)
	first.kill(t)
	holdsAll(t, second, bases)
	undisturbed()

	// The other one hangs for longer than its lease, and a new one has its bases then.
	third := a.controller(t, "third", env)
	second.signal(t, syscall.SIGSTOP)
	holdsAll(t, third, bases)
	transitions, err := transitionsOf(t.Context(), bases)
	must(t, err)
	second.signal(t, syscall.SIGCONT)
	woken := time.Now()
	eventually(t, "the second notices", second.ready)
	eventually(t, "the third renews its leases as if nothing had happened", func(ctx context.Context) error {
		leases, err := leasesOf(ctx, bases)
		if err != nil {
			return err
		}
		for _, l := range leases {
			if holder(l) != third.id {
				t.Fatalf("%s holds the lease of %s again", holder(l), l.Name)
			}
			if age := l.Spec.RenewTime.Sub(woken); age < 2*leaseDuration {
				return fmt.Errorf("the lease of %s was last renewed %s after the other came back", l.Name, age)
			}
		}
		return nil
	})
	now, err := transitionsOf(t.Context(), bases)
	must(t, err)
	if err := same(transitions, now); err != nil {
		t.Errorf("how often leases changed hands %v", err)
	}
	undisturbed()
	for _, turn := range f.turns() {
		if !turn.ready {
			t.Errorf("Pod %s was not Ready all the time: %s", turn.pod.Name, describe(turn.pod))
		}
	}

	// What was taken over is served.
	upgrade(t, d, "2.0.0")
	rolled(t, d, bases, "2.0.0")
	for _, b := range bases {
		if n := b.times("shared:2.0.0", fakebase.StateResolved); n != 1 {
			t.Errorf("base %s began %d installs of the second version", b.Identity(), n)
		}
	}
}

// holdsAll waits until a controller has the leases of all bases, and checks that it was in time.
func holdsAll(t *testing.T, p *process, bases []*base) {
	t.Helper()
	began := time.Now()
	eventually(t, p.id+" has all bases", func(ctx context.Context) error {
		leases, err := leasesOf(ctx, bases)
		if err != nil {
			return err
		}
		for _, l := range leases {
			if holder(l) != p.id {
				return fmt.Errorf("%s has the lease of %s", holder(l), l.Name)
			}
		}
		return nil
	})
	if took := time.Since(began); took > takeover {
		t.Errorf("%s had all bases after %s, not within %s", p.id, took, takeover)
	}
}

func leasesOf(ctx context.Context, bases []*base) ([]*coordinationv1.Lease, error) {
	leases := make([]*coordinationv1.Lease, len(bases))
	for i, b := range bases {
		var err error
		if leases[i], err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, b.node(), metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	return leases, nil
}

func holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "nobody") }

func transitionsOf(ctx context.Context, bases []*base) (map[string]int32, error) {
	leases, err := leasesOf(ctx, bases)
	if err != nil {
		return nil, err
	}
	list := map[string]int32{}
	for _, l := range leases {
		list[l.Name] = ptr.Deref(l.Spec.LeaseTransitions, 0)
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
