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

// launchPath is where a program lies in a node.
const launchPath = "/usr/local/bin/koupsandbox"

// Launch copies a program into the node of the control plane and starts it there, in the network of the node. It must
// be a static program for Linux that calls stdio.Serve. Its standard error goes to stderr. The end of ctx does not end
// the program after Launch has returned. Call Launch after Steps; it may be called concurrently.
func (p *Provider) Launch(ctx context.Context, program string, stderr io.Writer, args ...string) (*stdio.Process,
	error) {
	if err := image.IsStatic(program); err != nil {
		return nil, fmt.Errorf("%s cannot run in a node: %w; build it with: make build", program, err)
	}
	list, err := p.kind.ListNodes(p.name)
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of kind cluster %s: %w", p.name, shortError(err))
	}
	node, err := nodeutils.BootstrapControlPlaneNode(list)
	if err != nil {
		return nil, fmt.Errorf("looking for the control plane of kind cluster %s: %w", p.name, shortError(err))
	}
	if _, err := p.engine.Run(ctx, "cp", program, node.String()+":"+launchPath); err != nil {
		return nil, fmt.Errorf("copying a program into node %s: %w", node, err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.engine.Command,
		append([]string{"exec", "--interactive", node.String(), launchPath}, args...)...)
	cmd.Stderr = stderr
	return stdio.Start(cmd)
}
