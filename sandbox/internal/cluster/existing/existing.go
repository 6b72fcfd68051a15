package existing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// ErrConsent is returned, wrapped, if the cluster has no ownership marker and the user has not consented to the use
// of the cluster. In this case, nothing was written to the cluster.
var ErrConsent = errors.New("consent is needed")

// Options are the options of a Provider.
type Options struct {
	// Owner is the owner of the cluster. Its sandbox name is required.
	Owner cluster.Owner
	// Kubeconfig is the path of the user's kubeconfig, which is never modified. Default: .kube/config in the home
	// directory.
	Kubeconfig string
	// Context is the name of the kubeconfig context. Required.
	Context string
	// Consent permits the use of a cluster that has no ownership marker.
	Consent bool
	// Env is the environment of the sandbox. Required by Steps and CleanUp.
	Env string
	// Dir is the state directory of the sandbox. Required by all methods except Down and Marked.
	Dir state.Dir
	// Logger receives the errors of Maintain. Default: they are discarded.
	Logger *slog.Logger
}

// Provider makes an existing cluster available to a sandbox. Run its Steps in order, then use Cluster, and release
// the cluster with Down.
type Provider struct {
	o       Options
	config  *rest.Config
	client  kubernetes.Interface
	version string

	mu      sync.Mutex // guards the following fields
	account string     // name of the controllers' ServiceAccount; empty before AuthorizeController
	renewAt time.Time  // time at which to renew the ServiceAccount token
}

// New reads the kubeconfig and selects the context. It does not connect to the cluster.
func New(o Options) (*Provider, error) {
	o.Kubeconfig = cmp.Or(o.Kubeconfig, clientcmd.RecommendedHomeFile)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	raw, err := clientcmd.LoadFromFile(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", o.Kubeconfig, err)
	}
	if o.Context == "" {
		return nil, fmt.Errorf("an existing cluster requires the name of its context; %s",
			availableContexts(raw, o.Kubeconfig))
	}
	if raw.Contexts[o.Context] == nil {
		return nil, fmt.Errorf("context %q does not exist; %s", o.Context, availableContexts(raw, o.Kubeconfig))
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, o.Context, &clientcmd.ConfigOverrides{},
		nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %q of kubeconfig %s: %w", o.Context, o.Kubeconfig, err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("context %q of kubeconfig %s: %w", o.Context, o.Kubeconfig, err)
	}
	return &Provider{o: o, config: config, client: client}, nil
}

// availableContexts returns a text that lists the contexts in a kubeconfig.
func availableContexts(raw *clientcmdapi.Config, path string) string {
	if len(raw.Contexts) == 0 {
		return fmt.Sprintf("kubeconfig %s has no contexts", path)
	}
	return fmt.Sprintf("contexts in kubeconfig %s: %s", path,
		strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
}

// Steps implements daemon.Cluster. The Prepare steps do not change the cluster.
func (p *Provider) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare: []cluster.Step{{Name: "Checking context " + p.o.Context, Run: p.check}},
		Start: []cluster.Step{
			{Name: "Marking the cluster", Run: p.mark, Undo: p.Down},
			{Name: "Writing kubeconfig", Run: p.writeKubeconfig},
		},
	}
}

// Cluster implements daemon.Cluster. Call it after Steps.Prepare.
func (p *Provider) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Kubeconfig: p.o.Kubeconfig, Config: p.config, Version: p.version}
}

// Down deletes the ownership marker, and nothing else. A missing marker is not an error.
func (p *Provider) Down(ctx context.Context) error {
	if err := cluster.Unmark(ctx, p.client, p.o.Owner); err != nil {
		return fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	return nil
}

func (p *Provider) check(ctx context.Context) error {
	version, err := cluster.ServerVersion(ctx, p.config)
	if err != nil {
		return fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	p.version = version
	_, err = p.checkAllowed(ctx)
	if errors.Is(err, ErrConsent) {
		err = fmt.Errorf("%w; to consent, set --allow-unmarked-cluster or spec.cluster.consent", err)
	}
	return err
}

// mark writes the ownership marker. It calls checkAllowed again first, because the cluster may have changed since the
// earlier step.
func (p *Provider) mark(ctx context.Context) error {
	marked, err := p.checkAllowed(ctx)
	if err != nil || marked {
		return err
	}
	if err := cluster.Mark(ctx, p.client, p.o.Owner); err != nil {
		return fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	return nil
}

// checkAllowed returns an error unless the sandbox may use the cluster. The cluster must have the ownership marker of
// this sandbox (then marked is true), or have no marker and the user must have consented. Consent does not override
// the marker of another sandbox. The error wraps a *nodes.InUseError if the environment has Nodes or Leases that this
// sandbox did not create.
func (p *Provider) checkAllowed(ctx context.Context) (marked bool, err error) {
	marked, err = p.Marked(ctx)
	if err != nil {
		return false, err
	}
	if !marked && !p.o.Consent {
		return false, fmt.Errorf("context %q (%s) does not belong to sandbox %q; nothing was changed: %w",
			p.o.Context, p.config.Host, p.o.Owner.Sandbox, ErrConsent)
	}
	owner, err := p.owner(nil)
	if err == nil {
		err = owner.CheckUnused(ctx, p.client)
	}
	if err != nil {
		return false, fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	return marked, nil
}

// owner returns the owner of the Nodes and Leases of this sandbox. started contains the identities of started bases,
// which the state directory may not contain yet.
func (p *Provider) owner(started map[string]bool) (nodes.Owner, error) {
	prefix, err := p.o.Dir.ClientIDPrefix()
	if err != nil {
		return nodes.Owner{}, err
	}
	bases, err := p.o.Dir.Bases()
	if err != nil {
		return nodes.Owner{}, err
	}
	maps.Copy(bases, started)
	return nodes.Owner{Env: p.o.Env, HolderPrefix: prefix, Bases: bases}, nil
}
