package vpod

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// podKey names a Pod.
type podKey types.NamespacedName

func (k podKey) attrs() []any { return []any{"pod", types.NamespacedName(k).String()} }

// choresAtOnce is how many chores are done at the same time, however many Pods come at once.
const choresAtOnce = 8

// afterConflict is when a chore is looked at again that somebody else's write came before: mostly the
// informer has shown that by then.
const afterConflict = 200 * time.Millisecond

// tend does for a Pod what no lane does: it adds a toleration, or lets a Pod go that is no module. It
// looks at the Pod as it is now, and goes on until that is done: nothing else would begin it again after
// an API server has refused it once.
func (p *Provider) tend(ctx context.Context, key podKey) (time.Duration, error) {
	name := types.NamespacedName(key)
	pod := p.others.get(name)
	stranger := pod != nil
	if !stranger {
		pod, _ = p.informer.Get(name)
	}
	if pod == nil {
		return 0, nil
	}
	if pod.Spec.NodeName != "" {
		var done func()
		var served bool
		ctx, done, served = p.servedContext(ctx, p.Identity(pod.Spec.NodeName))
		defer done()
		if !served {
			return 0, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var err error
	if list, more := p.tolerations(pod); stranger {
		err = p.others.tend(ctx, pod)
	} else if more {
		err = p.patchTolerations(ctx, pod, list)
	}
	if apierrors.IsConflict(err) {
		return afterConflict, nil
	}
	return 0, ignoreNotFound(err)
}
