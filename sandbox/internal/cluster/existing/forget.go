package existing

import (
	"context"
	"errors"
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
)

// Marked tells whether the cluster bears the mark of this sandbox; that of another gives an
// *cluster.OtherSandboxError.
func (p *Provider) Marked(ctx context.Context) (bool, error) {
	marked, err := cluster.Marked(ctx, p.client, p.o.Owner)
	if err != nil {
		err = fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	return marked, err
}

// Forget removes what a sandbox has made in a cluster with its mark, when its daemon has ended without removing it: the
// recorded Nodes and Leases, and the objects with the label of the sandbox. The mark stays, for Down.
func (p *Provider) Forget(ctx context.Context) error {
	owner, err := p.owner(nil)
	if err == nil {
		err = owner.Remove(ctx, p.client)
	}
	return errors.Join(err, cluster.RevokeLabelled(ctx, p.Cluster()))
}
