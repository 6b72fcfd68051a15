package base

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// cordon cordons the Nodes of bases, or uncordons them if on is false, and returns the names of the Nodes. It waits
// for Nodes that do not exist yet.
func cordon(ctx context.Context, e *steps.Env, names v1alpha1.BaseNames, on bool) (nodes []string, err error) {
	bases, err := e.ResolveBases(names)
	if err != nil {
		return nil, err
	}
	err = e.WaitUntilNone(ctx, func(_ observe.Snapshot, all map[string]*unstructured.Unstructured) (missing []string) {
		nodes = nodes[:0]
		for _, b := range bases {
			if n := all[b.Identity]; n != nil {
				nodes = append(nodes, n.GetName())
			} else {
				missing = append(missing, b.Name)
			}
		}
		return missing
	}, func(missing []string) *steps.Failure {
		return steps.Fail("bases without a Node: %s", strings.Join(missing, ", "))
	})
	if err != nil {
		return nil, err
	}
	for _, name := range nodes {
		if err := e.Kube.Cordon(ctx, name, on); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func drain(ctx context.Context, e *steps.Env, a *v1alpha1.BaseDrain) (string, error) {
	nodes, err := cordon(ctx, e, a.Bases, true)
	if err != nil {
		return "", err
	}
	pods := observe.Subject{Resource: observe.Pods, Namespace: e.Namespace}
	if err := e.Recorder.Follow(ctx, pods); err != nil { // before the eviction, so that the deletion is observed
		return "", err
	}
	deleting := map[types.UID]string{}
	for _, name := range nodes {
		evicted, err := e.Kube.Evict(ctx, name)
		if err != nil {
			return "", err
		}
		for i := range evicted {
			deleting[evicted[i].UID] = evicted[i].Name
		}
	}
	text := fmt.Sprintf("drained %s, evicted %s", strings.Join(nodes, ", "), plain.Count(len(deleting), "Pod"))
	if a.NoWait {
		return text, nil
	}
	return text, e.WaitUntilDeleted(ctx, pods, deleting)
}
