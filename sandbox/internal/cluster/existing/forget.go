package existing

import (
	"context"
	"errors"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
)

// Forget removes what a sandbox made in the cluster, when its daemon is gone and cannot say what
// that was: the Nodes of bases that reported baseCluster as theirs, what
// controllers keep, the objects with the sandbox's label, and the mark. A cluster that does not bear the
// sandbox's mark is left alone.
func (p *Provider) Forget(ctx context.Context, baseCluster string) error {
	if marked, err := cluster.Marked(ctx, p.client, p.o.Sandbox); err != nil || !marked {
		return err
	}
	// The bases reported this cluster name, which is the sandbox's own unless the user chose another.
	selector := nodes.Selector + "," + labels.BaseCluster + "=" + baseCluster
	return errors.Join(nodes.Remove(ctx, p.client, selector, func(string) bool { return true }), nodes.RemoveLeases(ctx, p.client, p.o.Env),
		cluster.RevokeLabelled(ctx, p.Cluster()), p.Down(ctx))
}
