package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// ownershipFile is the name of a file in the state directory. The file exists once the sandbox has started to
	// create its cluster.
	ownershipFile = "kind.json"
	// answerTimeout is the timeout for reading the ownership marker.
	answerTimeout = 5 * time.Second
	// startTimeout is the timeout for reading the ownership marker after the containers of the cluster were started.
	startTimeout = 45 * time.Second
)

// ownership is the content of ownershipFile.
type ownership struct {
	Cluster string `json:"cluster"`
	Engine  string `json:"engine"`
	// Complete reports whether the ownership marker was set. If Complete is false, the creation of the cluster was
	// interrupted.
	Complete bool `json:"complete"`
}

func (p *Provider) writeOwnership(complete bool) error {
	text, err := json.Marshal(ownership{Cluster: p.name, Engine: p.engine.Command, Complete: complete})
	if err == nil {
		err = os.WriteFile(filepath.Join(p.o.Dir, ownershipFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the ownership of kind cluster %s: %w", p.name, err)
	}
	return nil
}

// readOwnership returns the content of ownershipFile in the state directory, or nil if the file does not exist.
func (p *Provider) readOwnership() (*ownership, error) {
	text, err := os.ReadFile(filepath.Join(p.o.Dir, ownershipFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var o ownership
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ownership of kind cluster %s: %w", p.name, err)
	}
	if o.Cluster != p.name {
		return nil, nil
	}
	return &o, nil
}

// checkOwner checks whether a cluster with the name of this sandbox's cluster exists. It adopts the cluster if it
// belongs to this sandbox, and deletes it if an earlier up of this sandbox was interrupted. Otherwise, it returns an
// error and keeps the cluster.
func (p *Provider) checkOwner(ctx context.Context) error {
	list, err := p.kind.ListNodes(p.name)
	if err != nil {
		return fmt.Errorf("looking for kind cluster %s: %w", p.name, shortError(err))
	}
	if len(list) == 0 {
		return nil
	}
	recorded, err := p.readOwnership()
	if err != nil {
		return err
	}
	if recorded != nil && !recorded.Complete {
		p.o.Notify(fmt.Sprintf("kind cluster %s is incomplete, because an earlier up was interrupted; recreating it",
			p.name))
		return p.delete(ctx)
	}
	limit := answerTimeout
	if recorded != nil {
		// The containers may have stopped with the engine.
		if _, err := p.engine.Run(ctx, append([]string{"start"}, names(list)...)...); err != nil {
			return fmt.Errorf("starting the nodes of kind cluster %s: %w", p.name, err)
		}
		limit = startTimeout
	}
	marked, err := p.waitMarked(ctx, limit)
	var other *cluster.OtherSandboxError
	switch {
	case errors.As(err, &other):
		return fmt.Errorf("kind cluster %s: %w", p.name, err)
	case err == nil && marked:
		p.owned, p.adopt = true, true
		p.o.Notify(fmt.Sprintf("using the existing kind cluster %s of this sandbox", p.name))
		return p.connect()
	case recorded != nil:
		return fmt.Errorf("kind cluster %s of this sandbox is not usable (%s); delete it with koupsandbox down, then "+
			"run koupsandbox up", p.name, p.markProblem(err))
	default:
		return fmt.Errorf("kind cluster %s exists and does not belong to a sandbox (%s); choose another --name, or "+
			"delete the cluster with: kind delete cluster --name %s", p.name, p.markProblem(err), p.name)
	}
}

// markProblem returns a clause that describes why the ownership marker was not found.
func (p *Provider) markProblem(err error) string {
	if err == nil {
		return "it has no ownership marker"
	}
	p.o.Logger.Info("could not check the ownership marker of a kind cluster", "cluster", p.name, "err", err)
	return "its ownership marker could not be read"
}

// waitMarked reports whether the cluster has the ownership marker of this sandbox. It retries until the cluster
// responds or limit has passed, and does not change the cluster.
func (p *Provider) waitMarked(ctx context.Context, limit time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
	defer cancel()
	var marked bool
	var other *cluster.OtherSandboxError
	err := poll(ctx, func(ctx context.Context) (err error) {
		marked, err = p.readMark(ctx)
		if errors.As(err, &other) {
			return nil
		}
		return err
	})
	if other != nil {
		return false, other
	}
	return marked, err
}

// readMark checks the ownership marker once. It does not write a kubeconfig file, because the cluster may belong to
// another owner.
func (p *Provider) readMark(ctx context.Context) (bool, error) {
	text, err := p.kind.KubeConfig(p.name, false)
	if err != nil {
		return false, shortError(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		return false, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, err
	}
	return cluster.Marked(ctx, client, p.o.Owner)
}

// CleanUp deletes the cluster of a sandbox whose daemon is not running. It keeps the cluster unless the state directory
// or the ownership marker shows that the cluster belongs to the sandbox. Without a container engine, CleanUp assumes
// that there is no cluster.
func CleanUp(ctx context.Context, o Options) error {
	p, err := New(o)
	if err != nil {
		return err
	}
	if err := p.findEngine(ctx); errors.Is(err, engine.ErrNoEngine) {
		return nil
	} else if err != nil {
		return err
	}
	list, err := p.kind.ListNodes(p.name)
	if err != nil || len(list) == 0 {
		return err
	}
	recorded, err := p.readOwnership()
	if err != nil {
		return err
	}
	if recorded == nil {
		marked, err := p.waitMarked(ctx, answerTimeout)
		if !marked {
			p.o.Logger.Info("kept a kind cluster that has the name of the sandbox, but may belong to another owner",
				"reason", p.markProblem(err))
			return nil
		}
	}
	p.owned = true
	return p.Down(ctx)
}

func names(list []nodes.Node) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = n.String()
	}
	return out
}
