package daemon

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// lastingPlatform is a platform whose cluster is the sandbox's own, and outlives its daemon when that ends without a word.
type lastingPlatform interface {
	// Adopted tells whether the cluster was there before; call it after API.
	Adopted() bool
	// RemoveController removes the controller that runs in the cluster, if there is one, and blocks until it has ended.
	RemoveController(ctx context.Context) error
}

// removeEarlier takes out of the sandbox's own cluster what a daemon that ended without a word has left there, so that nobody waits for it:
// the controller, and the Nodes of its bases and of those of scenarios, which ended with it, with their Pods. A base from outside gets a new
// Node when it next says something; in a cluster of the user's there may be others that are in use.
func removeEarlier(ctx context.Context, p platform, client kubernetes.Interface, config *v1alpha1.Sandbox) error {
	if EffectiveProvider(config) == v1alpha1.ProviderExisting {
		return nil
	}
	if p, ok := p.(lastingPlatform); ok {
		if err := p.RemoveController(ctx); err != nil {
			return err
		}
	}
	return removeNodes(ctx, client, vnodeSelector, func(string) bool { return true })
}

// leaves tells whether the cluster stays as it was found: an up that fails loses nothing that was there before.
func (d *Daemon) leaves(p platform) bool {
	lasting, ok := p.(lastingPlatform)
	return ok && lasting.Adopted() && errors.Is(context.Cause(d.ending), errUpFailed)
}
