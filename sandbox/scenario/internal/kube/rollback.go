package kube

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

// Rollback rolls a Deployment, DaemonSet or StatefulSet back to a revision, like kubectl rollout undo. Revision 0
// means the previous revision. It returns the revision number and the changed workload.
func (c *Client) Rollback(ctx context.Context, k ResourceKind, namespace, name string, to int64) (number int64,
	o *unstructured.Unstructured, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("rolling back %s %s: %w", k.Kind, name, err)
		}
	}()
	o, err = c.Resource(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, nil, err
	}
	list, err := revision.List(ctx, c.Typed, k.Kind, o)
	if err != nil {
		return 0, nil, err
	}
	at := len(list) - 2
	if to > 0 {
		at = slices.IndexFunc(list, func(r revision.Revision) bool { return r.Number == to })
	}
	if at < 0 {
		numbers := make([]int64, len(list))
		for i, r := range list {
			numbers[i] = r.Number
		}
		if to > 0 {
			return 0, nil, fmt.Errorf("revision %d not found; available revisions: %v", to, numbers)
		}
		return 0, nil, fmt.Errorf("no previous revision; available revisions: %v", numbers)
	}
	o, err = c.Resource(k, namespace).Patch(ctx, name, list[at].Type, list[at].Patch,
		metav1.PatchOptions{FieldManager: FieldManager})
	return list[at].Number, o, err
}
