package existing

import (
	"context"
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
// recorded Nodes and Leases, and the objects of Admit. The mark stays, for Down.
func (p *Provider) Forget(ctx context.Context) error { return p.Dismiss(ctx, nil) }
