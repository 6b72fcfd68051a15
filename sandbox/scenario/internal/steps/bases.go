package steps

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// AddInitialBases adds the bases that exist at the start of a scenario. It adds all sets concurrently.
func (e *Env) AddInitialBases(ctx context.Context, sets []v1alpha1.BaseSet) error {
	for _, set := range sets {
		e.SetBaseSet(set)
	}
	var g errgroup.Group
	for _, set := range sets {
		if count := CountOf(set); count > 0 {
			g.Go(func() error {
				_, err := e.AddBases(ctx, set, count)
				return err
			})
		}
	}
	return g.Wait()
}

// CountOf returns the number of bases in a set.
func CountOf(set v1alpha1.BaseSet) int {
	return ptr.Deref(set.Count, 1)
}

// SetBaseSet sets the definition of a set of bases.
func (e *Env) SetBaseSet(set v1alpha1.BaseSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sets[set.Name] = set
}

// BaseSet returns the definition of a set of bases.
func (e *Env) BaseSet(name string) (v1alpha1.BaseSet, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	set, ok := e.sets[name]
	return set, ok
}

// AddBases adds bases to a set and returns their names. It waits until their Nodes are Ready, unless the bases are in
// another environment or have faults that prevent Ready Nodes.
func (e *Env) AddBases(ctx context.Context, set v1alpha1.BaseSet, count int) ([]string, error) {
	spec := set
	spec.Faults = make([]v1alpha1.Fault, len(set.Faults))
	for i, f := range set.Faults {
		spec.Faults[i] = e.WithFaultID(f)
	}
	added, err := e.Sandbox.AddBases(ctx,
		control.AddRequest{Count: count, Group: e.Group, Set: set.Name, Spec: &spec, Seed: e.Seed})
	if err != nil {
		return nil, fmt.Errorf("adding %s of set %s: %w", plain.Count(count, "base"), set.Name, err)
	}
	e.Recorder.AddBases(added...)
	names := make([]string, len(added))
	for i, b := range added {
		names[i] = strings.TrimPrefix(b.HostName, e.Group+"-")
	}
	for _, f := range spec.Faults {
		e.RecordFault(f, v1alpha1.TargetBase, names)
	}
	if !e.getsNode(set) {
		return names, nil
	}
	return names, e.NodesReady(ctx, names)
}

// Host returns the host name GROUP-SET-N of a base.
func (e *Env) Host(base string) string { return e.Group + "-" + base }

// faultsWithoutNode lists the fault kinds that prevent a base from getting a Ready Node.
var faultsWithoutNode = []fault.Kind{fault.KindSilent, fault.KindDeaf, fault.KindDisconnect, fault.KindCrash,
	fault.KindStartFailed}

// getsNode reports whether the bases of a set are expected to have Ready Nodes.
func (e *Env) getsNode(set v1alpha1.BaseSet) bool {
	if set.Env != "" && set.Env != e.Run.Env {
		return false
	}
	return !slices.ContainsFunc(set.Faults,
		func(f v1alpha1.Fault) bool { return slices.Contains(faultsWithoutNode, f.Kind) })
}

// NodesReady waits until the Nodes of bases are Ready and Pods can be scheduled to them.
func (e *Env) NodesReady(ctx context.Context, names []string) error {
	return e.WaitUntilNone(ctx,
		func(v observe.Snapshot, nodes map[string]*unstructured.Unstructured) (missing []string) {
			bases := v.Bases()
			for _, name := range names {
				b, exists := bases[name]
				if n := nodes[b.Identity]; !exists || n == nil || observe.NodeStateOf(n) != events.NodeReady ||
					tainted(n) {
					missing = append(missing, name)
				}
			}
			return missing
		}, func(missing []string) *Failure {
			return Fail("bases without a Ready Node: %s (%d of %d)", strings.Join(missing, ", "), len(missing),
				len(names))
		})
}

// WaitUntilNone blocks until find returns no bases. find receives the Nodes of the group, keyed by the identity of
// their base. If ctx times out first, WaitUntilNone returns failure(bases), where bases is the last result of find.
func (e *Env) WaitUntilNone(ctx context.Context,
	find func(observe.Snapshot, map[string]*unstructured.Unstructured) []string,
	failure func([]string) *Failure) error {
	if err := e.Recorder.Follow(ctx, observe.NodesOf(e.Group)); err != nil {
		return err
	}
	var left []string
	err := e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		left = find(v, v.NodesByIdentity(e.Group))
		return len(left) == 0, nil
	})
	return TimeoutFailure(ctx, err, func() *Failure { return failure(left) })
}

// tainted reports whether a Node has a not-ready or unreachable taint. New Nodes are tainted for a short time. If the
// scheduler tries to schedule a Pod during this time, the Pod is delayed by seconds.
func tainted(node *unstructured.Unstructured) bool {
	taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	return slices.ContainsFunc(taints, func(t any) bool {
		taint, ok := t.(map[string]any)
		return ok && (taint["key"] == corev1.TaintNodeNotReady || taint["key"] == corev1.TaintNodeUnreachable)
	})
}

// ResolveBases returns the bases that match names, sorted by set and index. A name is *, the name of a set, or the name
// of a base. It returns a Failure if a name matches no base.
func (e *Env) ResolveBases(names v1alpha1.BaseNames) ([]observe.Base, error) {
	if len(names) == 0 {
		return nil, Fail("no bases specified")
	}
	var all map[string]observe.Base
	e.Recorder.Read(func(v observe.Snapshot) { all = v.Bases() })
	chosen := map[string]observe.Base{}
	for _, name := range names {
		matched := false
		for _, b := range all {
			if name == "*" || name == b.Set || name == b.Name {
				chosen[b.Name], matched = b, true
			}
		}
		if !matched {
			return nil, Fail("no base or set of bases is named %q; bases: %s", name,
				strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	return slices.SortedFunc(maps.Values(chosen), func(a, b observe.Base) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Index, b.Index))
	}), nil
}
