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

// ErrConsent is returned, wrapped, when the cluster has no ownership marker and the user has not agreed to
// its use. Nothing was written.
var ErrConsent = errors.New("consent is needed")

// Options of a Provider.
type Options struct {
	// Owner is what the cluster is marked with. Its name is required.
	Owner cluster.Owner
	// Kubeconfig is the path of the user's kubeconfig, which is only read; empty means .kube/config
	// in the home directory.
	Kubeconfig string
	// Context to use. Required: the current context is never taken.
	Context string
	// Consent to use, and to mark, a cluster that has no ownership marker; false refuses it.
	Consent bool
	// Env is the environment of the sandbox. Required by Steps, Dismiss and Forget.
	Env string
	// Dir is the state directory of the sandbox. Required by all methods except Down and Marked.
	Dir state.Dir
	// Logger of Guard. Default: nothing is logged.
	Logger *slog.Logger
}

// Provider is a cluster that the user named. Run its Steps in order, then use Cluster; end with Down.
type Provider struct {
	o       Options
	config  *rest.Config
	client  kubernetes.Interface
	version string

	mu      sync.Mutex // guards the following fields
	account string     // the ServiceAccount of the controllers; empty before Admit
	renewAt time.Time  // when to renew its token
}

// New reads the kubeconfig and finds the context in it. It does not call the cluster.
func New(o Options) (*Provider, error) {
	o.Kubeconfig = cmp.Or(o.Kubeconfig, clientcmd.RecommendedHomeFile)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	raw, err := clientcmd.LoadFromFile(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", o.Kubeconfig, err)
	}
	if o.Context == "" {
		return nil, fmt.Errorf("an existing cluster is used only by the name of its context; %s",
			known(raw, o.Kubeconfig))
	}
	if raw.Contexts[o.Context] == nil {
		return nil, fmt.Errorf("there is no context %q; %s", o.Context, known(raw, o.Kubeconfig))
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

// known says which contexts there are to choose from.
func known(raw *clientcmdapi.Config, path string) string {
	if len(raw.Contexts) == 0 {
		return fmt.Sprintf("kubeconfig %s has none", path)
	}
	return fmt.Sprintf("kubeconfig %s has %s", path, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
}

// Steps make the cluster the sandbox's. The first only reads.
func (p *Provider) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare: []cluster.Step{{Name: "Checking context " + p.o.Context, Run: p.check}},
		Start: []cluster.Step{
			{Name: "Marking the cluster", Run: p.mark, Undo: p.Down},
			{Name: "Writing kubeconfig", Run: p.writeKubeconfig},
		},
	}
}

// Cluster describes the cluster; call it after the first of Steps.
func (p *Provider) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Kubeconfig: p.o.Kubeconfig, Config: p.config, Version: p.version}
}

// Down removes the mark and leaves everything else alone. It is fine on a cluster that bears none.
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
	_, err = p.allowed(ctx)
	if errors.Is(err, ErrConsent) {
		err = fmt.Errorf("%w; to consent, set --allow-unmarked-cluster or spec.cluster.consent", err)
	}
	return err
}

// mark looks again before it writes, so that it does not depend on somebody having run the check.
func (p *Provider) mark(ctx context.Context) error {
	marked, err := p.allowed(ctx)
	if err != nil || marked {
		return err
	}
	if err := cluster.Mark(ctx, p.client, p.o.Owner); err != nil {
		return fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	return nil
}

// allowed returns an error unless the cluster has the mark of this sandbox, or has no mark and the user consents to its
// use; marked reports which. Consent does not replace the mark of another sandbox. The error wraps a *nodes.InUseError if
// another controller or sandbox uses the environment.
func (p *Provider) allowed(ctx context.Context) (marked bool, err error) {
	marked, err = p.Marked(ctx)
	if err != nil {
		return false, err
	}
	if !marked && !p.o.Consent {
		return false, fmt.Errorf("context %q (%s) is no cluster of sandbox %q and nothing was changed in it: %w",
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

// owner describes the Nodes and Leases of this sandbox. Its bases are the recorded ones and started.
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
