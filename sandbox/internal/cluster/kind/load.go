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

// Load loads an image onto all nodes. Pods must use the image without pulling it. Load blocks until the container
// runtimes of the nodes respond. Call it after Steps.Prepare. It may run concurrently with the other steps.
func (p *Provider) Load(ctx context.Context, i *image.Image) error {
	list, err := p.waitContainerRuntimes(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range list {
		group.Go(func() error {
			read, write := io.Pipe()
			// The end of ctx closes the stream, which ends the command that reads it.
			defer context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) })()
			go func() { _ = write.CloseWithError(image.Write(write, i)) }() // the reader returns the error
			if err := nodeutils.LoadImageArchive(node, read); err != nil {
				_ = read.CloseWithError(err) // returns nil
				return fmt.Errorf("loading image %s onto node %s: %w", i.Name, node, shortError(err))
			}
			return nil
		})
	}
	return group.Wait()
}

// waitContainerRuntimes waits until the container runtimes of all nodes respond. It retries after every failure,
// because the nodes may still be starting.
func (p *Provider) waitContainerRuntimes(ctx context.Context) ([]nodes.Node, error) {
	var list []nodes.Node
	err := poll(ctx, func(ctx context.Context) (err error) {
		list, err = p.kind.ListInternalNodes(p.name)
		switch {
		case err != nil:
			return shortError(err)
		case len(list) < p.o.Nodes && !p.adopt:
			return fmt.Errorf("existing nodes: %d of %d", len(list), p.o.Nodes)
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
