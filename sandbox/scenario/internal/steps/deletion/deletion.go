// Package deletion executes the step delete.
package deletion

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec deletes objects and waits until they are removed from the API.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Delete) (string, error) {
	t, err := e.ResolveRef(a.Ref)
	if err != nil {
		return "", err
	}
	found, err := e.Find(ctx, t)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		none := steps.Fail("%s not found", t)
		if a.IgnoreNotFound {
			return none.Message, nil
		}
		return "", none
	}
	var grace *int64
	if a.GracePeriod != nil {
		seconds := int64(a.GracePeriod.Seconds())
		grace = &seconds
	}
	if err := e.Recorder.Follow(ctx, t.Subject); err != nil { // before the deletion, so that it is observed
		return "", err
	}
	deleted := map[types.UID]string{}
	for _, o := range found {
		err := e.Kube.Delete(ctx, t.Type, o, grace)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another client deleted or replaced the object
			continue
		}
		if err != nil {
			return "", err
		}
		deleted[o.GetUID()] = o.GetName()
	}
	text := fmt.Sprintf("deleted %d: %s", len(found), t)
	if t.Name != "" {
		text = "deleted " + t.String()
	}
	if a.NoWait {
		return text, nil
	}
	return text, e.WaitUntilDeleted(ctx, t.Subject, deleted)
}
