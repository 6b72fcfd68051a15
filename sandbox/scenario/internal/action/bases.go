package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// Setup adds the bases that a scenario starts with, all sets at once.
func (s *Stage) Setup(ctx context.Context, sets []v1alpha1.BaseSet) error {
	for _, set := range sets {
		s.define(set)
	}
	errs := make(chan error, len(sets))
	started := 0
	for _, set := range sets {
		if count := countOf(set); count > 0 {
			started++
			go func() {
				_, err := s.add(ctx, set, count)
				errs <- err
			}()
		}
	}
	var first error
	for range started {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func countOf(set v1alpha1.BaseSet) int {
	if set.Count == nil {
		return 1
	}
	return *set.Count
}

func (s *Stage) define(set v1alpha1.BaseSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[set.Name] = set
}

func (s *Stage) definition(name string) (v1alpha1.BaseSet, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, ok := s.sets[name]
	return set, ok
}

// add adds bases of a set and waits until their Nodes are Ready, if the controller is to see them
// at all. It returns their names.
func (s *Stage) add(ctx context.Context, set v1alpha1.BaseSet, count int) ([]string, error) {
	spec := set
	spec.Faults = make([]v1alpha1.Fault, len(set.Faults))
	for i, f := range set.Faults {
		spec.Faults[i] = s.named(f)
	}
	added, err := s.o.Sandbox.AddBases(ctx, control.AddRequest{Count: count, Group: s.o.Group, Set: set.Name, Spec: &spec, Seed: s.o.Seed})
	if err != nil {
		return nil, fmt.Errorf("adding %d bases of set %s: %w", count, set.Name, err)
	}
	s.o.World.Know(added...)
	names := make([]string, len(added))
	for i, b := range added {
		names[i] = s.short(b.HostName)
	}
	for _, f := range spec.Faults {
		s.watch(f, v1alpha1.TargetBase, names)
	}
	if !s.seen(set) {
		return names, nil
	}
	return names, s.nodesReady(ctx, names)
}

func (s *Stage) short(host string) string { return strings.TrimPrefix(host, s.o.Group+"-") }

func (s *Stage) host(base string) string { return s.o.Group + "-" + base }

// unseen are the faults with which a base does not get a Ready Node.
var unseen = []fault.Kind{fault.KindSilent, fault.KindDeaf, fault.KindDisconnect, fault.KindCrash, fault.KindStartFailed}

// seen tells whether the controller makes Nodes for bases of a set.
func (s *Stage) seen(set v1alpha1.BaseSet) bool {
	if set.Env != "" && set.Env != s.o.Run.Env {
		return false
	}
	return !slices.ContainsFunc(set.Faults, func(f v1alpha1.Fault) bool { return slices.Contains(unseen, f.Kind) })
}

// nodesReady waits until the Nodes of bases are Ready and Pods may go there.
func (s *Stage) nodesReady(ctx context.Context, names []string) error {
	return s.untilNone(ctx, func(v observe.View, nodes map[string]*unstructured.Unstructured) (missing []string) {
		bases := v.Bases()
		for _, name := range names {
			b, there := bases[name]
			if n := nodes[b.Identity]; !there || n == nil || observe.NodeStateOf(n) != events.NodeReady || tainted(n) {
				missing = append(missing, name)
			}
		}
		return missing
	}, func(missing []string) *Failure {
		return fail("%d of %d bases have no Ready Node: %s", len(missing), len(names), strings.Join(missing, ", "))
	})
}

// untilNone waits until nobody is left by the Nodes of the group, which it gives by identity. why
// says what it means that somebody is.
func (s *Stage) untilNone(ctx context.Context, who func(observe.View, map[string]*unstructured.Unstructured) []string, why func([]string) *Failure) error {
	if err := s.o.World.Follow(ctx, observe.NodesOf(s.o.Group)); err != nil {
		return err
	}
	var left []string
	err := s.o.World.Until(ctx, func(v observe.View) (bool, error) {
		left = who(v, v.NodesByIdentity(s.o.Group))
		return len(left) == 0, nil
	})
	return ended(ctx, err, func() *Failure { return why(left) })
}

// tainted tells whether Kubernetes keeps Pods off a Node: it does for the first moment of each
// Node, and a Pod that the scheduler looks at then waits for seconds.
func tainted(node *unstructured.Unstructured) bool {
	taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	return slices.ContainsFunc(taints, func(t any) bool {
		taint, ok := t.(map[string]any)
		return ok && (taint["key"] == corev1.TaintNodeNotReady || taint["key"] == corev1.TaintNodeUnreachable)
	})
}

// nodesGone waits until there are no Nodes of the identities.
func (s *Stage) nodesGone(ctx context.Context, bases []observe.Base) error {
	return s.untilNone(ctx, func(_ observe.View, nodes map[string]*unstructured.Unstructured) (left []string) {
		for _, b := range bases {
			if nodes[b.Identity] != nil {
				left = append(left, b.Name)
			}
		}
		return left
	}, func(left []string) *Failure {
		return fail("the controller still shows Nodes of %s (it gives a silent base up after BASE_DEAD_AFTER, 60 s by default)", strings.Join(left, ", "))
	})
}

// resolve returns the bases that names stand for, in order of their names; a name that stands for
// none is a failure.
func (s *Stage) resolve(names v1alpha1.BaseNames) ([]observe.Base, error) {
	if len(names) == 0 {
		return nil, fail("no bases are named")
	}
	var all map[string]observe.Base
	s.o.World.Look(func(v observe.View) { all = v.Bases() })
	chosen := map[string]observe.Base{}
	for _, name := range names {
		before := len(chosen)
		matched := false
		for _, b := range all {
			if name == "*" || name == b.Set || name == b.Name {
				chosen[b.Name], matched = b, true
			}
		}
		if !matched && before == len(chosen) {
			return nil, fail("%q stands for no base; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	return slices.SortedFunc(maps.Values(chosen), func(a, b observe.Base) int {
		if a.Set != b.Set {
			return strings.Compare(a.Set, b.Set)
		}
		return a.Index - b.Index
	}), nil
}

func namesOf(bases []observe.Base) string {
	names := make([]string, len(bases))
	for i, b := range bases {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}

func (s *Stage) base(ctx context.Context, a *v1alpha1.BaseAction) (string, error) {
	switch {
	case a.Add != nil:
		return s.addMore(ctx, *a.Add)
	case a.Remove != nil:
		return s.removeBases(ctx, a.Remove)
	case a.Restart != nil:
		return s.restart(ctx, a.Restart)
	case a.Upgrade != nil:
		return s.upgrade(ctx, a.Upgrade)
	case a.Cordon != nil:
		nodes, err := s.cordon(ctx, a.Cordon, true)
		return "cordoned " + strings.Join(nodes, ", "), err
	case a.Drain != nil:
		return s.drain(ctx, a.Drain)
	case a.Uncordon != nil:
		nodes, err := s.cordon(ctx, a.Uncordon, false)
		return "uncordoned " + strings.Join(nodes, ", "), err
	}
	return "", fmt.Errorf("the step says nothing to do with bases")
}

// addMore adds bases to a set; their settings are those of the set but for what the step says.
func (s *Stage) addMore(ctx context.Context, more v1alpha1.BaseSet) (string, error) {
	if _, known := s.definition(more.Name); !known {
		s.define(more)
	}
	names, err := s.add(ctx, more, countOf(more))
	return "added " + strings.Join(names, ", "), err
}

func (s *Stage) removeBases(ctx context.Context, names v1alpha1.BaseNames) (string, error) {
	bases, err := s.resolve(names)
	if err != nil {
		return "", err
	}
	if err := s.end(ctx, bases); err != nil {
		return "", err
	}
	return "removed " + namesOf(bases), s.nodesGone(ctx, bases)
}

// end ends the processes of bases.
func (s *Stage) end(ctx context.Context, bases []observe.Base) error {
	hosts, names := make([]string, len(bases)), make([]string, len(bases))
	for i, b := range bases {
		hosts[i], names[i] = s.host(b.Name), b.Name
	}
	if _, err := s.o.Sandbox.RemoveBases(ctx, control.RemoveRequest{Bases: hosts}); err != nil {
		return fmt.Errorf("removing %s: %w", strings.Join(names, ", "), err)
	}
	s.o.World.Forget(names...)
	return nil
}

// restart restarts bases one after the other, and ends when all have a Ready Node; the Nodes of
// identities that are no more go later.
func (s *Stage) restart(ctx context.Context, a *v1alpha1.BaseRestart) (string, error) {
	bases, err := s.resolve(a.Bases)
	if err != nil {
		return "", err
	}
	names := make([]string, len(bases))
	for i, b := range bases {
		names[i] = b.Name
		now, err := s.o.Sandbox.RestartBase(ctx, s.host(b.Name), control.RestartRequest{NewIdentity: a.NewIdentity})
		if err != nil {
			return "", fmt.Errorf("restarting %s: %w", b.Name, err)
		}
		s.o.World.Know(*now)
	}
	return "restarted " + namesOf(bases), s.nodesReady(ctx, names)
}

// upgrade replaces bases batch by batch. It ends when all new ones have a Ready Node; the Nodes of
// the old ones go when the controller has given them up, as at a release of a real base, which says
// no goodbye either.
func (s *Stage) upgrade(ctx context.Context, a *v1alpha1.BaseUpgrade) (string, error) {
	set, known := s.definition(a.Set)
	if !known {
		return "", fail("there is no set of bases %q", a.Set)
	}
	old, err := s.resolve(v1alpha1.BaseNames{a.Set})
	if err != nil {
		return "", err
	}
	old = slices.DeleteFunc(old, func(b observe.Base) bool { return b.Version == a.Version })
	if len(old) == 0 {
		return "", fail("all bases of set %s are of version %s already", a.Set, a.Version)
	}
	before := set.Version
	set.Version = a.Version
	s.define(set)
	batch := 1
	if a.Batch != nil {
		batch = *a.Batch
	}
	for part := range slices.Chunk(old, batch) {
		steps := []func() error{
			func() error { _, err := s.add(ctx, set, len(part)); return err },
			func() error { return s.end(ctx, part) },
		}
		if a.OldFirst {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("replaced %d bases of version %s by ones of version %s", len(old), before, a.Version), nil
}
