package existing

import (
	"context"
	"errors"
	"fmt"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
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

// Forget removes what a sandbox made in a cluster that bears its mark, when its daemon is gone and cannot
// say what that was: the Nodes of bases that reported baseCluster as theirs, what controllers keep, and the
// objects with the sandbox's label. The mark stays, for Down.
func (p *Provider) Forget(ctx context.Context, baseCluster string) error {
	// The bases reported this cluster name, which is the sandbox's own unless the user chose another.
	selector := nodes.Selector + "," + labels.BaseCluster + "=" + baseCluster
	return errors.Join(nodes.Remove(ctx, p.client, selector, func(string) bool { return true }), nodes.RemoveLeases(ctx, p.client, p.o.Env),
		cluster.RevokeLabelled(ctx, p.Cluster()))
}
