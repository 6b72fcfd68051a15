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
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// AddInitialBases adds the bases that a scenario starts with, all sets at once.
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

// AddBases adds bases of a set and waits until their Nodes are Ready, if the controller is to see them
// at all. It returns their names.
func (e *Env) AddBases(ctx context.Context, set v1alpha1.BaseSet, count int) ([]string, error) {
	spec := set
	spec.Faults = make([]v1alpha1.Fault, len(set.Faults))
	for i, f := range set.Faults {
		spec.Faults[i] = e.WithFaultID(f)
	}
	added, err := e.Sandbox.AddBases(ctx,
		control.AddRequest{Count: count, Group: e.Group, Set: set.Name, Spec: &spec, Seed: e.Seed})
	if err != nil {
		return nil, fmt.Errorf("adding %d bases of set %s: %w", count, set.Name, err)
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

// Host returns the host name of a base.
func (e *Env) Host(base string) string { return e.Group + "-" + base }

// faultsWithoutNode are the faults with which a base does not get a Ready Node.
var faultsWithoutNode = []fault.Kind{fault.KindSilent, fault.KindDeaf, fault.KindDisconnect, fault.KindCrash,
	fault.KindStartFailed}

// getsNode reports whether the controller makes Nodes for bases of a set.
func (e *Env) getsNode(set v1alpha1.BaseSet) bool {
	if set.Env != "" && set.Env != e.Run.Env {
		return false
	}
	return !slices.ContainsFunc(set.Faults, func(f v1alpha1.Fault) bool { return slices.Contains(faultsWithoutNode, f.Kind) })
}

// NodesReady waits until the Nodes of bases are Ready and Pods may go there.
func (e *Env) NodesReady(ctx context.Context, names []string) error {
	return e.WaitUntilNone(ctx, func(v observe.Snapshot, nodes map[string]*unstructured.Unstructured) (missing []string) {
		bases := v.Bases()
		for _, name := range names {
			b, there := bases[name]
			if n := nodes[b.Identity]; !there || n == nil || observe.NodeStateOf(n) != events.NodeReady || tainted(n) {
				missing = append(missing, name)
			}
		}
		return missing
	}, func(missing []string) *Failure {
		return Fail("%d of %d bases have no Ready Node: %s", len(missing), len(names), strings.Join(missing, ", "))
	})
}

// WaitUntilNone waits until who returns no base. It passes the Nodes of the group by the identity of their base. why returns the
// failure if there are some at the end.
func (e *Env) WaitUntilNone(ctx context.Context, who func(observe.Snapshot, map[string]*unstructured.Unstructured) []string,
	why func([]string) *Failure) error {
	if err := e.Recorder.Follow(ctx, observe.NodesOf(e.Group)); err != nil {
		return err
	}
	var left []string
	err := e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		left = who(v, v.NodesByIdentity(e.Group))
		return len(left) == 0, nil
	})
	return TimeoutFailure(ctx, err, func() *Failure { return why(left) })
}

// tainted reports whether Kubernetes keeps Pods off a Node. A new Node is tainted for a moment, and a Pod that the scheduler
// considers in that moment waits for seconds.
func tainted(node *unstructured.Unstructured) bool {
	taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	return slices.ContainsFunc(taints, func(t any) bool {
		taint, ok := t.(map[string]any)
		return ok && (taint["key"] == corev1.TaintNodeNotReady || taint["key"] == corev1.TaintNodeUnreachable)
	})
}

// ResolveBases returns the bases that names stand for, in order of their names; a name that stands for
// none is a failure.
func (e *Env) ResolveBases(names v1alpha1.BaseNames) ([]observe.Base, error) {
	if len(names) == 0 {
		return nil, Fail("no bases are named")
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
			return nil, Fail("%q stands for no base; there are: %s", name,
				strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	return slices.SortedFunc(maps.Values(chosen), func(a, b observe.Base) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Index, b.Index))
	}), nil
}
