package kind

import (
	"context"
	"fmt"
	"io"
	"os/exec"

	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// launchPath is the path on a node to which Launch copies the binary.
const launchPath = "/usr/local/bin/koupsandbox"

// Launch copies a binary to the control plane node and starts it in the network namespace of the node. The binary
// must be a static Linux binary that calls stdio.Serve. The standard error of the process is written to stderr. The
// process continues to run after ctx ends. Call Launch after Steps. It may be called concurrently.
func (p *Provider) Launch(ctx context.Context, binary string, stderr io.Writer, args ...string) (*stdio.Process,
	error) {
	if err := image.IsStatic(binary); err != nil {
		return nil, fmt.Errorf("%s cannot run on a node: %w; build it with: make build", binary, err)
	}
	list, err := p.kind.ListNodes(p.name)
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of kind cluster %s: %w", p.name, shortError(err))
	}
	node, err := nodeutils.BootstrapControlPlaneNode(list)
	if err != nil {
		return nil, fmt.Errorf("finding the control plane node of kind cluster %s: %w", p.name, shortError(err))
	}
	if _, err := p.engine.Run(ctx, "cp", binary, node.String()+":"+launchPath); err != nil {
		return nil, fmt.Errorf("copying a binary to node %s: %w", node, err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.engine.Command,
		append([]string{"exec", "--interactive", node.String(), launchPath}, args...)...)
	cmd.Stderr = stderr
	return stdio.Start(cmd)
}
