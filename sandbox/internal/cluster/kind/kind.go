package kind

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	// namePrefix begins the name of every cluster of a sandbox; the sandbox's name follows.
	namePrefix = "koup-"
	// maxName is the longest name of a cluster: kind appends up to 14 characters to make a host
	// name, which has 64 at most.
	maxName = 50
	// readyPoll is how often the nodes are looked at until they are Ready.
	readyPoll = 200 * time.Millisecond
)

// Options of a Provider.
type Options struct {
	// Owner is what the cluster is marked with; the cluster's own name is koup-NAME. Its name is
	// required.
	Owner cluster.Owner
	// Dir is the state directory of the sandbox, which exists: the note about the cluster lies there.
	// Required.
	Dir string
	// Kubeconfig is where the administrator's kubeconfig is written. Required.
	Kubeconfig string
	// LogDir receives the directory kind/ with the nodes' logs when a creation fails. Required.
	LogDir string
	// Engine is docker or podman, if the sandbox has no cluster yet. Default: the first of the two
	// that answers.
	Engine string
	// Nodes is how many nodes the cluster has, the control plane's included. Default: 1.
	Nodes int
	// Image of the nodes. Default: see Version.
	Image string
	// Version of Kubernetes, such as "v1.36.3"; not together with Image. Default: that of kind's
	// own image.
	Version string
	// Durable lets etcd write through to the disk, so that the cluster survives a crash of the machine.
	// Default: it survives that of everything else.
	Durable bool
	// Notify is told what a person should know, in a sentence. Default: nothing is reported.
	Notify func(string)
	// Logger gets what kind says. Default: nothing is logged.
	Logger *slog.Logger
}

// Provider is a cluster of kind for one sandbox. What it offers, and when:
//
//	at any time           Steps, Rest, Down
//	after the first Step  Load
//	after all Steps       Cluster, Gateway, Launch, GuardNodes,
//	                      KillContainer, PauseContainer, ResumeContainer
//
// Run the Steps in order, in one goroutine. The methods after all Steps, and Load during the Steps, may be called
// concurrently. Down may be called at any time.
type Provider struct {
	o    Options
	name string

	engine *engine.Engine
	kind   *kindcluster.Provider
	owned  bool // the cluster that is there, if any, is this sandbox's
	adopt  bool // it is used as it is
	// kubeletClientCA is a file; empty where the API server does not reach this machine.
	kubeletClientCA string
	image           string

	config  *rest.Config
	client  kubernetes.Interface
	version string
	gateway string
	// authority signs what this machine serves to the cluster.
	authority *cluster.Authority
}

// New checks the options. It starts and writes nothing, and asks no engine.
func New(o Options) (*Provider, error) {
	o.Nodes = cmp.Or(o.Nodes, 1)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	p := &Provider{o: o, name: namePrefix + o.Owner.Sandbox}
	if len(p.name) > maxName {
		return nil, fmt.Errorf("the sandbox's name %q is too long for a kind cluster: take at most %d characters",
			o.Owner.Sandbox, maxName-len(namePrefix))
	}
	var err error
	p.authority, _, err = cluster.NewAuthority("koupsandbox " + o.Owner.Sandbox)
	return p, err
}

// Steps bring the cluster up: find the engine and the node image, create the cluster, mark it, prepare it for bases,
// and wait for its nodes.
func (p *Provider) Steps() cluster.Steps {
	return cluster.Steps{
		Prepare: []cluster.Step{{Name: "Asking the container engine", Run: p.prepare, Undo: p.Down}},
		Start: []cluster.Step{
			{Name: "Bringing up kind cluster " + p.name, Run: p.bringUp},
			{Name: "Preparing the cluster for bases", Run: p.prepareForBases},
		},
		Complete: []cluster.Step{{Name: "Waiting for the cluster's nodes", Run: p.waitNodes}},
	}
}

// Cluster describes the running cluster.
func (p *Provider) Cluster() *cluster.Cluster {
	return &cluster.Cluster{Kubeconfig: p.o.Kubeconfig, Config: p.config, Version: p.version}
}

// prepare finds the engine, what it has of the cluster, and the image for a new one.
func (p *Provider) prepare(ctx context.Context) error {
	if err := p.findEngine(ctx); err != nil {
		return err
	}
	if p.o.Engine != "" && p.o.Engine != p.engine.Command {
		p.o.Notify(fmt.Sprintf("kind cluster %s of this sandbox is in %s; one in %s takes a down first", p.name,
			p.engine.Command, p.o.Engine))
	}
	if err := p.checkOwner(ctx); err != nil || p.adopt {
		return err
	}
	if err := checkEngine(ctx, p.engine); err != nil {
		return err
	}
	return p.chooseImage(ctx)
}

// findEngine finds the engine that has, or shall have, the cluster.
func (p *Provider) findEngine(ctx context.Context) error {
	note, err := p.readOwnership()
	if err != nil {
		return err
	}
	name := p.o.Engine
	if note != nil {
		name = note.Engine
	}
	found, err := engine.Find(ctx, name)
	if err != nil {
		return fmt.Errorf("%w; start one, or use --provider embedded, which needs none", err)
	}
	p.engine = found
	p.kind = kindcluster.NewProvider(providerOption(found), kindcluster.ProviderWithLogger(logger{p.o.Logger}))
	return nil
}

// prepareForBases marks the cluster as the sandbox's, finds how it reaches this machine, and keeps
// Pods off the Nodes of bases that tolerate everything.
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

// connect writes the administrator's kubeconfig and makes a client of it.
func (p *Provider) connect() error {
	if err := p.kind.ExportKubeConfig(p.name, p.o.Kubeconfig, false); err != nil {
		return fmt.Errorf("writing the kubeconfig of kind cluster %s: %w", p.name, err)
	}
	raw, err := clientcmd.LoadFromFile(p.o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading back the kubeconfig: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading back the kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of kind cluster %s: %w", p.name, err)
	}
	p.config, p.client = config, client
	return nil
}

// waitNodes waits until every node of the engine is Ready, and has a route to the Pods of every
// other.
func (p *Provider) waitNodes(ctx context.Context) error {
	if err := poll(ctx, p.nodesReady); err != nil {
		return err
	}
	return p.addRoutes(ctx)
}

// nodesReady says what is missing until all nodes are Ready.
func (p *Provider) nodesReady(ctx context.Context) error {
	nodes, err := p.nodes(ctx)
	if err != nil {
		return err
	}
	if !p.adopt && len(nodes) < p.o.Nodes {
		return fmt.Errorf("%d of %d nodes have joined", len(nodes), p.o.Nodes)
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

// poll calls done until it succeeds. When ctx ends first, the error says what done said last, and
// why ctx ended.
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
