package kind

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// Load gives an image to every node; Pods that name it must not pull it. Call it after Steps.
func (p *Provider) Load(ctx context.Context, b *image.Built) error {
	list, err := p.kind.ListInternalNodes(p.name)
	if err != nil {
		return fmt.Errorf("listing the nodes of kind cluster %s: %w", p.name, plain(err))
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range list {
		group.Go(func() error {
			read, write := io.Pipe()
			// The end of ctx ends the stream, and with it the command that reads it.
			defer context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) })() // a pipe's end has no error
			go func() { _ = write.CloseWithError(image.Write(write, b)) }()                         // as above; the reader gets it
			if err := nodeutils.LoadImageArchive(node, read); err != nil {
				_ = read.CloseWithError(err) // as above
				return fmt.Errorf("loading image %s into node %s: %w", b.Name, node, plain(err))
			}
			return nil
		})
	}
	return group.Wait()
}
