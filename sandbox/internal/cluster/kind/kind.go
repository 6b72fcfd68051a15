package kind

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// namePrefix is the part of a cluster name before the sandbox name.
	namePrefix = "koup-"
	// maxName is the maximum length of a cluster name. kind appends up to 14 characters to form a node's host name,
	// which is limited to 64 characters.
	maxName = 50
	// readyPoll is the interval between checks whether the nodes are Ready.
	readyPoll = 200 * time.Millisecond
)

// Options are the options of a Provider.
type Options struct {
	// Owner is the owner of the cluster. Its sandbox name NAME is required. The cluster name is koup-NAME.
	Owner cluster.Owner
	// Dir is the state directory of the sandbox, which must exist. Required.
	Dir string
	// Kubeconfig is the path to which the administrator's kubeconfig is written. Required.
	Kubeconfig string
	// LogDir is the directory for logs. After a failure, the logs of the nodes are written to its subdirectory kind.
	// Required.
	LogDir string
	// Engine is docker or podman. It is ignored if the sandbox already has a cluster. Default: the first engine that
	// responds.
	Engine string
	// Nodes is the number of nodes, including the control plane. Default: 1.
	Nodes int
	// Image is the node image. Default: the image for Version.
	Image string
	// Version is the Kubernetes version, such as "v1.37.2". Version and Image must not both be set. Default: the
	// version of kind's default node image.
	Version string
	// Durable makes etcd sync writes to disk, so that the data survives a machine crash. Default: the data only
	// survives restarts of the processes.
	Durable bool
	// Notify is called with messages for the user. Default: the messages are discarded.
	Notify func(string)
	// Logger receives the log messages of kind. Default: they are discarded.
	Logger *slog.Logger
}

// Provider manages the kind cluster of one sandbox. Run its Steps in order, in one goroutine. Steps, ComponentSet and
// Down may be called at any time, and Load after the first step. The other methods may be called concurrently after
// all steps have completed.
type Provider struct {
	o    Options
	name string

	engine *engine.Engine
	kind   *kindcluster.Provider
	owned  bool // whether the cluster, if it exists, belongs to this sandbox
	adopt  bool // whether to use the existing cluster of this sandbox
	// kubeletClientCA is the path of the CA certificate for Properties.KubeletClientCA; empty if the API server
	// cannot reach this machine.
	kubeletClientCA string
	image           string

	config  *rest.Config
	client  kubernetes.Interface
	created atomic.Pointer[rest.Config] // config, safe to read during the steps; nil until the cluster exists
	version string
	gateway string
	// authority issues certificates for servers that run on this machine.
	authority *cluster.Authority
}

// New validates the options and returns a Provider. It starts no processes, writes no files, and does not call the
// engine.
func New(o Options) (*Provider, error) {
	o.Nodes = cmp.Or(o.Nodes, 1)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	p := &Provider{o: o, name: namePrefix + o.Owner.Sandbox}
	if len(p.name) > maxName {
		return nil, fmt.Errorf("sandbox name %q is too long for a kind cluster; use at most %d characters",
			o.Owner.Sandbox, maxName-len(namePrefix))
	}
	var err error
	p.authority, _, err = cluster.NewAuthority("koupsandbox " + o.Owner.Sandbox)
	return p, err
}

// Steps implements daemon.Cluster.
func (p *Provider) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare: []cluster.Step{{Name: "Checking the container engine", Run: p.prepare, Undo: p.Down}},
		Start: []cluster.Step{
			{Name: "Bringing up kind cluster " + p.name, Run: p.bringUp},
			{Name: "Preparing the cluster for bases", Run: p.prepareForBases},
		},
		Complete: []cluster.Step{{Name: "Waiting for the cluster's nodes", Run: p.waitNodes}},
	}
}

// Cluster implements daemon.Cluster.
func (p *Provider) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Kubeconfig: p.o.Kubeconfig, Config: p.config, Version: p.version}
}

// prepare finds the engine, checks the owner of an existing cluster, and chooses the node image for a new cluster.
func (p *Provider) prepare(ctx context.Context) error {
	if err := p.findEngine(ctx); err != nil {
		return err
	}
	if p.o.Engine != "" && p.o.Engine != p.engine.Command {
		p.o.Notify(fmt.Sprintf(
			"kind cluster %s of this sandbox runs in %s; to move it to %s, run koupsandbox down first",
			p.name, p.engine.Command, p.o.Engine))
	}
	if err := p.checkOwner(ctx); err != nil || p.adopt {
		return err
	}
	if err := checkEngine(ctx, p.engine); err != nil {
		return err
	}
	return p.chooseImage(ctx)
}

// findEngine selects the engine of the existing cluster, or the engine for a new cluster if there is none.
func (p *Provider) findEngine(ctx context.Context) error {
	recorded, err := p.readOwnership()
	if err != nil {
		return err
	}
	name := p.o.Engine
	if recorded != nil {
		name = recorded.Engine
	}
	found, err := engine.Find(ctx, name)
	if err != nil {
		return fmt.Errorf("%w; start an engine, or use --provider embedded, which requires no engine", err)
	}
	p.engine = found
	p.kind = kindcluster.NewProvider(providerOption(found), kindcluster.ProviderWithLogger(logger{p.o.Logger}))
	return nil
}

// prepareForBases sets the ownership marker, determines at which address the cluster can reach this machine, makes
// the addresses of bases reachable, and keeps DaemonSets off the Nodes of bases.
func (p *Provider) prepareForBases(ctx context.Context) error {
	if err := cluster.Mark(ctx, p.client, p.o.Owner); err != nil {
		return err
	}
	if err := p.writeOwnership(true); err != nil {
		return err
	}
	version, err := cluster.ServerVersion(ctx, p.config)
	if err != nil {
		return err
	}
	p.version = version
	p.gateway = p.findGateway(ctx)
	p.writeClientCA()
	if err := p.keepReachable(ctx); err != nil {
		return err
	}
	return newGuard(p.client, p.o.Logger).restrictAll(ctx)
}

// connect writes the administrator's kubeconfig and creates the API client.
func (p *Provider) connect() error {
	if err := p.kind.ExportKubeConfig(p.name, p.o.Kubeconfig, false); err != nil {
		return fmt.Errorf("writing the kubeconfig of kind cluster %s: %w", p.name, err)
	}
	raw, err := clientcmd.LoadFromFile(p.o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the new kubeconfig: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the new kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for kind cluster %s: %w", p.name, err)
	}
	p.config, p.client = config, client
	p.created.Store(config)
	return nil
}

// waitNodes waits until all nodes are Ready, then adds routes between the Pods of different nodes.
func (p *Provider) waitNodes(ctx context.Context) error {
	if err := poll(ctx, p.nodesReady); err != nil {
		return err
	}
	return p.addRoutes(ctx)
}

// nodesReady returns an error until all nodes are Ready.
func (p *Provider) nodesReady(ctx context.Context) error {
	nodes, err := p.nodes(ctx)
	if err != nil {
		return err
	}
	if !p.adopt && len(nodes) < p.o.Nodes {
		return fmt.Errorf("nodes that have joined: %d of %d", len(nodes), p.o.Nodes)
	}
	for _, n := range nodes {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s is not Ready: %s", n.Name, c.Message)
			}
		}
	}
	return nil
}

// poll calls done repeatedly until done returns nil. If ctx ends first, the returned error contains the last error of
// done and the cause of ctx.
func poll(ctx context.Context, done func(context.Context) error) error {
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(readyPoll):
		}
	}
}

func (p *Provider) nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := p.client.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: labels.Component + "!=" + labels.Vnode})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of kind cluster %s: %w", p.name, err)
	}
	return list.Items, nil
}
