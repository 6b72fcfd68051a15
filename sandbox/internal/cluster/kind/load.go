package kind

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// Load loads an image into every node. Pods must not pull it. It waits for the container runtimes of the nodes. Call it
// after Steps.Prepare, also during the other steps.
func (p *Provider) Load(ctx context.Context, i *image.Image) error {
	list, err := p.awaitNodes(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range list {
		group.Go(func() error {
			read, write := io.Pipe()
			// The end of ctx ends the stream, and with it the command that reads it.
			defer context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) })()
			go func() { _ = write.CloseWithError(image.Write(write, i)) }() // as above; the reader gets it
			if err := nodeutils.LoadImageArchive(node, read); err != nil {
				_ = read.CloseWithError(err) // as above
				return fmt.Errorf("loading image %s into node %s: %w", i.Name, node, plain(err))
			}
			return nil
		})
	}
	return group.Wait()
}

// awaitNodes blocks until the container runtime of every node answers. Until then every failure may
// be that of a node that is only just being made.
func (p *Provider) awaitNodes(ctx context.Context) ([]nodes.Node, error) {
	var list []nodes.Node
	err := poll(ctx, func(ctx context.Context) (err error) {
		list, err = p.kind.ListInternalNodes(p.name)
		switch {
		case err != nil:
			return plain(err)
		case len(list) < p.o.Nodes && !p.adopt:
			return fmt.Errorf("%d of %d nodes are there", len(list), p.o.Nodes)
		}
		for _, node := range names(list) {
			if _, err := p.engine.Run(ctx, "exec", node, "ctr", "version"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the nodes of kind cluster %s: %w", p.name, err)
	}
	return list, nil
}
