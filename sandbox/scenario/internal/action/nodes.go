package action

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// cordon keeps Pods off the Nodes of bases, or no longer, and returns the Nodes. It waits for Nodes that
// are not there yet.
func (s *Stage) cordon(ctx context.Context, names v1alpha1.BaseNames, on bool) (nodes []string, err error) {
	bases, err := s.resolve(names)
	if err != nil {
		return nil, err
	}
	err = s.untilNone(ctx, func(_ observe.View, all map[string]*unstructured.Unstructured) (missing []string) {
		nodes = nodes[:0]
		for _, b := range bases {
			if n := all[b.Identity]; n != nil {
				nodes = append(nodes, n.GetName())
			} else {
				missing = append(missing, b.Name)
			}
		}
		return missing
	}, func(missing []string) *Failure { return fail("there is no Node of %s", strings.Join(missing, ", ")) })
	if err != nil {
		return nil, err
	}
	for _, name := range nodes {
		if err := s.o.Kube.Cordon(ctx, name, on); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func (s *Stage) drain(ctx context.Context, a *v1alpha1.BaseDrain) (string, error) {
	nodes, err := s.cordon(ctx, a.Bases, true)
	if err != nil {
		return "", err
	}
	pods := observe.Subject{Resource: observe.Pods, Namespace: s.o.Namespace}
	if err := s.o.World.Follow(ctx, pods); err != nil { // before, so that the end is seen
		return "", err
	}
	leaving := map[types.UID]string{}
	for _, name := range nodes {
		evicted, err := s.o.Kube.Evict(ctx, name)
		if err != nil {
			return "", err
		}
		for i := range evicted {
			leaving[evicted[i].UID] = evicted[i].Name
		}
	}
	text := fmt.Sprintf("drained %s of %d Pods", strings.Join(nodes, ", "), len(leaving))
	if a.NoWait {
		return text, nil
	}
	return text, s.untilGone(ctx, pods, leaving)
}
