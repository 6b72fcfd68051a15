// Package controller is the module controller. It shows each base as a Node and each module as a container of a Pod,
// like ModuleController V2. See ARCHITECTURE.md for its packages.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/apiwait"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/baseline"
	"github.com/koupleless/koupsandbox/controller/internal/kubelet"
	"github.com/koupleless/koupsandbox/controller/internal/metrics"
	"github.com/koupleless/koupsandbox/controller/internal/moduleview"
	"github.com/koupleless/koupsandbox/controller/internal/report"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	httptunnel "github.com/koupleless/koupsandbox/controller/internal/tunnel/http"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel/mqtt"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
	"github.com/koupleless/koupsandbox/controller/internal/vpod"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Component is the source of the Events of the controller.
const Component = "module-controller"

// Controller serves the bases of one environment. Create it with New.
type Controller struct {
	opts           Options
	logger         *slog.Logger
	metrics        *metrics.Metrics
	client         kubernetes.Interface
	registry       *base.Registry
	dialog         *base.Dialog
	nodeReconciler *vnode.Reconciler
	provider       *vpod.Provider
	nodes          corev1informers.NodeInformer // those of bases
	peers          cache.SharedIndexInformer    // the Leases of controllers
	events         record.EventBroadcaster
	recorder       record.EventRecorder
	mqtt           *mqtt.Tunnel
	http           *httptunnel.Tunnel
	reporter       *report.Reporter
	journal        *kubelet.Journal
	kubelet        *kubelet.Server                 // nil unless logs and exec are served
	view           *moduleview.Syncer              // nil unless Modules are shown
	workloads      informers.SharedInformerFactory // Deployments and DaemonSets
	baseline       *baseline.Selector              // nil unless baselines are enabled
	parts          []func(context.Context) error   // optional ones, started with the rest
	due            chan struct{}                   // a question to a base may be due
	rejects        *rejections
	newcomers      *utilcache.LRUExpireCache // modules of baselines by the identity of bases that are not known yet
	chatter        *rate.Limiter
	reach          reach
	networks       tunnel.Networks // in which a base may name any address
	serving        atomic.Bool     // whether the tunnels run
}

// New returns a Controller. It opens the listener of the kubelet API, whose port is in Nodes, and no connections.
func New(opts Options) (*Controller, error) {
	c, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	config := c.restConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the Kubernetes client: %w", err)
	}
	if err := c.wire(client, config); err != nil {
		return nil, err
	}
	return c, nil
}

func prepare(opts Options) (*Controller, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	c := &Controller{
		opts: opts, logger: opts.Logger, metrics: metrics.New(), journal: kubelet.NewJournal(),
		due:     make(chan struct{}, 1),
		chatter: newChatter(), newcomers: utilcache.NewLRUExpireCache(maxNewcomers),
	}
	c.rejects = newRejections(c.metrics, c.logger)
	return c, nil
}

func (c *Controller) restConfig() *rest.Config {
	config := rest.CopyConfig(c.opts.Config)
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	config.UserAgent = Component
	if config.QPS == 0 {
		config.QPS = -1 // the API server's own priority and fairness decides, not a guess made here
	}
	config.Wrap(c.metrics.CountRequests)
	config.Wrap(c.reach.watch)
	config.Wrap(c.guardRequests)
	config.Wrap(apiwait.Watches)
	config.Wrap(latest)
	return config
}

func (c *Controller) wire(client kubernetes.Interface, config *rest.Config) error {
	c.client = client
	opts := c.opts
	c.registry = base.NewRegistry(base.Options{
		UnreachableAfter: opts.UnreachableAfter, DeadAfter: opts.DeadAfter,
		HealthInterval: opts.HealthInterval, ListInterval: opts.ListInterval,
		Grace: opts.ReconnectGrace, Deletions: opts.DeletionsPercent, MaxBases: opts.MaxBases,
		MaxPerAddress: opts.MaxBasesPerAddress,
		Mass:          opts.MassSilence,
		Speed:         opts.speed(),
		Sees:          c.sees,
		Behind:        func(key tunnel.Key) bool { return key == tunnel.MQTT && c.mqtt != nil && c.mqtt.Behind() },
		Acting:        func() bool { return c.nodeReconciler.Acting() }, // it is there when the first sweep comes
		Observer:      c.baseChanged,
	})
	c.dialog = base.NewDialog(c.registry)
	if err := c.wireTunnels(); err != nil {
		return err
	}
	c.workloads = informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(dropManagedFields))
	c.wirePods()
	if err := c.listenKubelet(); err != nil {
		return err
	}
	if err := c.wireNodes(); err != nil {
		return err
	}
	if err := c.wireParts(config); err != nil {
		return err
	}
	c.gauges()
	return nil
}

// Start serves until ctx ends or a part fails. It leaves Nodes, Leases and modules as they are.
func (c *Controller) Start(ctx context.Context) error {
	watcher := c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	defer c.events.Shutdown()
	defer watcher.Stop()
	group, ctx := errgroup.WithContext(ctx)
	servers, err := c.servers()
	if err != nil {
		return err
	}
	if c.http != nil {
		if err := c.http.Listen(ctx); err != nil {
			return err
		}
	}
	for _, serve := range servers {
		group.Go(func() error { return serve(ctx) })
	}
	c.untilTheAPIAnswers(ctx)
	group.Go(func() error { c.nodes.Informer().RunWithContext(ctx); return nil })
	group.Go(func() error { c.peers.RunWithContext(ctx); return nil })
	for _, start := range c.parts {
		group.Go(func() error { return start(ctx) })
	}
	group.Go(func() error { return c.provider.Start(ctx) })
	group.Go(func() error {
		if !cache.WaitForCacheSync(ctx.Done(), c.nodes.Informer().HasSynced, c.peers.HasSynced,
			c.provider.Informer().HasSynced) {
			return nil
		}
		if !c.workloadsKnown(ctx) && ctx.Err() == nil {
			c.logger.Warn("Deployments and DaemonSets could not be read yet; until then the newest of several Pods " +
				"of a module on a base is to serve")
		}
		c.adopt()
		return c.serveBases(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// untilTheAPIAnswers blocks until the API server answers or ctx ends. Without it, informers could wait a minute
// before they try again, which is longer than the Leases of Nodes are valid.
func (c *Controller) untilTheAPIAnswers(ctx context.Context) {
	told := false
	for ctx.Err() == nil {
		_, err := c.client.Discovery().ServerVersion()
		// informers say what is not allowed
		if err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return
		}
		if !told {
			c.logger.Warn("the Kubernetes API does not answer yet", "err", err)
			told = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// serveBases runs the parts that need the state of the cluster.
func (c *Controller) serveBases(ctx context.Context) error {
	c.serving.Store(true)
	defer c.serving.Store(false)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.nodeReconciler.Start(ctx) })
	group.Go(func() error { return c.sweep(ctx) })
	if c.mqtt != nil {
		group.Go(func() error { return c.mqtt.Start(ctx) })
	}
	if c.http != nil {
		group.Go(func() error { return c.http.Start(ctx) })
	}
	return group.Wait()
}

// adopt adds the bases whose Nodes an earlier controller has left, so that they are queried immediately. It ignores
// Nodes that no controller has created.
func (c *Controller) adopt() {
	for _, obj := range c.nodes.Informer().GetStore().List() {
		n, ok := obj.(*corev1.Node)
		if !ok || n.Labels[labels.Env] != c.settings().Labels(base.Info{})[labels.Env] {
			continue
		}
		info, ok := vnode.Info(n)
		if !ok {
			continue
		}
		info, err := vnode.Check(n, info, c.networks)
		if err != nil {
			c.recorder.Eventf(n, corev1.EventTypeWarning, api.ReasonNodeOfNoBase,
				"no controller has made this node: %v. It is left alone; delete it", err)
			c.logger.Warn("a node that says it is that of a base is left alone: no controller has made it; delete it",
				"node", n.Name, "err", err)
			continue
		}
		c.registry.Adopt(info, n.CreationTimestamp.Time)
	}
}

// sees reports whether a tunnel is connected. The HTTP tunnel is connected while it listens, because bases call the
// controller.
func (c *Controller) sees(key tunnel.Key) bool {
	switch {
	case key == tunnel.MQTT && c.mqtt != nil:
		return c.mqtt.Connected()
	case key == tunnel.HTTP && c.http != nil:
		return c.http.Addr() != ""
	default:
		return true
	}
}

// Errors of Ready.
var (
	errUnread     = errors.New("the Kubernetes API has not been read yet")
	errNotStarted = errors.New("the tunnels have not started yet")
)

// Ready returns an error unless the controller has read the Kubernetes API and serves bases. It ignores the
// connection to the MQTT broker: a controller that is not ready gets no heartbeats over HTTP, and blocks the rollout
// of its Deployment. See Connected.
func (c *Controller) Ready() error {
	if !c.nodes.Informer().HasSynced() || !c.provider.Informer().HasSynced() {
		return errUnread
	}
	if !c.serving.Load() {
		return errNotStarted
	}
	return nil
}

// Connected is Ready, and returns an error if there is no connection to the MQTT broker.
func (c *Controller) Connected() error {
	if err := c.Ready(); err != nil || c.mqtt == nil {
		return err
	}
	if err := c.mqtt.Trouble(); err != nil {
		return fmt.Errorf("the MQTT tunnel: %w", err)
	}
	return nil
}
