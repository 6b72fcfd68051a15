// Package base executes the step base.
package base

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec adds, removes, restarts or upgrades bases, or changes their Nodes. It waits until the change is visible in the
// Nodes.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.BaseAction) (string, error) {
	switch {
	case a.Add != nil:
		return add(ctx, e, *a.Add)
	case a.Remove != nil:
		return remove(ctx, e, a.Remove)
	case a.Restart != nil:
		return restart(ctx, e, a.Restart)
	case a.Upgrade != nil:
		return upgrade(ctx, e, a.Upgrade)
	case a.Cordon != nil:
		nodes, err := cordon(ctx, e, a.Cordon, true)
		return "cordoned " + strings.Join(nodes, ", "), err
	case a.Drain != nil:
		return drain(ctx, e, a.Drain)
	}
	nodes, err := cordon(ctx, e, a.Uncordon, false)
	return "uncordoned " + strings.Join(nodes, ", "), err
}

// add adds bases to an existing set or creates a new set.
func add(ctx context.Context, e *steps.Env, more v1alpha1.BaseSet) (string, error) {
	if _, known := e.BaseSet(more.Name); !known {
		e.SetBaseSet(more)
	}
	names, err := e.AddBases(ctx, more, steps.CountOf(more))
	return "added " + strings.Join(names, ", "), err
}

func remove(ctx context.Context, e *steps.Env, names v1alpha1.BaseNames) (string, error) {
	bases, err := e.ResolveBases(names)
	if err != nil {
		return "", err
	}
	if err := removeBases(ctx, e, bases); err != nil {
		return "", err
	}
	return "removed " + namesOf(bases), waitNodesDeleted(ctx, e, bases)
}

func removeBases(ctx context.Context, e *steps.Env, bases []observe.Base) error {
	hosts, names := make([]string, len(bases)), make([]string, len(bases))
	for i, b := range bases {
		hosts[i], names[i] = e.Host(b.Name), b.Name
	}
	if _, err := e.Sandbox.RemoveBases(ctx, control.RemoveRequest{Bases: hosts}); err != nil {
		return fmt.Errorf("removing %s: %w", strings.Join(names, ", "), err)
	}
	e.Recorder.RemoveBases(names...)
	return nil
}

// restart restarts bases one after the other, and then waits until all of them have Ready Nodes. It does not wait
// until the Nodes of the previous identities are deleted.
func restart(ctx context.Context, e *steps.Env, a *v1alpha1.BaseRestart) (string, error) {
	bases, err := e.ResolveBases(a.Bases)
	if err != nil {
		return "", err
	}
	names := make([]string, len(bases))
	for i, b := range bases {
		names[i] = b.Name
		now, err := e.Sandbox.RestartBase(ctx, e.Host(b.Name), control.RestartRequest{NewIdentity: a.NewIdentity})
		if err != nil {
			return "", fmt.Errorf("restarting %s: %w", b.Name, err)
		}
		e.Recorder.AddBases(*now)
	}
	return "restarted " + namesOf(bases), e.NodesReady(ctx, names)
}

// upgrade replaces bases in batches, and waits until each new base has a Ready Node. It does not wait until the
// controller deletes the Nodes of the old bases.
func upgrade(ctx context.Context, e *steps.Env, a *v1alpha1.BaseUpgrade) (string, error) {
	set, known := e.BaseSet(a.Set)
	if !known {
		return "", steps.Fail("set of bases %q not found", a.Set)
	}
	old, err := e.ResolveBases(v1alpha1.BaseNames{a.Set})
	if err != nil {
		return "", err
	}
	old = slices.DeleteFunc(old, func(b observe.Base) bool { return b.Version == a.Version })
	if len(old) == 0 {
		return "", steps.Fail("all bases of set %s already have version %s", a.Set, a.Version)
	}
	before := set.Version
	set.Version = a.Version
	e.SetBaseSet(set)
	for batch := range slices.Chunk(old, ptr.Deref(a.Batch, 1)) {
		steps := []func() error{
			func() error { _, err := e.AddBases(ctx, set, len(batch)); return err },
			func() error { return removeBases(ctx, e, batch) },
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
	return fmt.Sprintf("upgraded %s from version %s to %s", plain.Count(len(old), "base"), before, a.Version), nil
}

func waitNodesDeleted(ctx context.Context, e *steps.Env, bases []observe.Base) error {
	return e.WaitUntilNone(ctx, func(_ observe.Snapshot, nodes map[string]*unstructured.Unstructured) (left []string) {
		for _, b := range bases {
			if nodes[b.Identity] != nil {
				left = append(left, b.Name)
			}
		}
		return left
	}, func(left []string) *steps.Failure {
		return steps.Fail("the controller has not deleted the Nodes of %s (it deletes the Node of an "+
			"unreachable base after "+
			"BASE_DEAD_AFTER, 60 s by default)", strings.Join(left, ", "))
	})
}

func namesOf(bases []observe.Base) string {
	names := make([]string, len(bases))
	for i, b := range bases {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}
