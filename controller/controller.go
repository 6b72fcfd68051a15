// Package controller is the bundled module controller. Like ModuleController V2, it represents each base as a Node and
// each module as a container of a Pod. ARCHITECTURE.md describes its packages.
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

// Component is the source component of the Events that the controller records.
const Component = "module-controller"

// Controller is a module controller for the bases of one environment. Create it with New.
type Controller struct {
	opts                  Options
	logger                *slog.Logger
	metrics               *metrics.Metrics
	client                kubernetes.Interface
	registry              *base.Registry
	requests              *base.RequestTracker
	nodeReconciler        *vnode.Reconciler
	provider              *vpod.Provider
	nodes                 corev1informers.NodeInformer // informer of the Nodes of bases
	peers                 cache.SharedIndexInformer    // informer of the Leases of all controllers of the environment
	events                record.EventBroadcaster
	recorder              record.EventRecorder
	mqtt                  *mqtt.Tunnel
	http                  *httptunnel.Tunnel
	reporter              *report.Reporter
	moduleLog             *kubelet.EventLog
	kubelet               *kubelet.Server                 // kubelet API; nil unless logs and exec are enabled
	moduleView            *moduleview.Syncer              // nil if Module objects are disabled
	workloads             informers.SharedInformerFactory // informers for Deployments and DaemonSets
	baseline              *baseline.Selector              // nil if the controller does not answer baseline queries
	parts                 []func(context.Context) error   // Start methods of the optional components
	sweepRequested        chan struct{}                   // requests a sweep before the next interval
	rejects               *rejections
	modulesAtRegistration *utilcache.LRUExpireCache // baselines by identity of a base that has not sent a heartbeat
	logLimiter            *rate.Limiter
	reachability          apiReachability
	networks              tunnel.Networks // networks in which a base may report any address
	serving               atomic.Bool     // true while the tunnels run
}

// New returns a Controller. It opens the listener of the kubelet API, because the Nodes contain the port of this
// listener. It opens no other listeners and no connections.
func New(opts Options) (*Controller, error) {
	c, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	config := c.restConfig()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the Kubernetes client: %w", err)
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
		opts: opts, logger: opts.Logger, metrics: metrics.New(), moduleLog: kubelet.NewEventLog(),
		sweepRequested: make(chan struct{}, 1),
		logLimiter:     newLogLimiter(), modulesAtRegistration: utilcache.NewLRUExpireCache(maxRegistering),
	}
	c.rejects = newRejections(c.metrics, c.logger)
	return c, nil
}

func (c *Controller) restConfig() *rest.Config {
	config := rest.CopyConfig(c.opts.Config)
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json"
	config.UserAgent = Component
	if config.QPS == 0 {
		config.QPS = -1 // API Priority and Fairness of the API server limits the requests
	}
	config.Wrap(c.metrics.CountRequests)
	config.Wrap(c.reachability.watch)
	config.Wrap(c.guardRequests)
	config.Wrap(apiwait.RetryWatches)
	config.Wrap(withoutStaleReads)
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
		Mass:          opts.MassOutage,
		TimeScale:     opts.timeScale(),
		Connected:     c.isConnected,
		Delayed:       func(key tunnel.Key) bool { return key == tunnel.MQTT && c.mqtt != nil && c.mqtt.Delayed() },
		MayAct:        func() bool { return c.nodeReconciler.MayAct() }, // not nil when the first sweep runs
		Observer:      c.baseChanged,
	})
	c.requests = base.NewRequestTracker(c.registry)
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

// Start runs the controller until ctx is done or a component fails. When it stops, it does not change Nodes, their
// Leases, or modules.
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
	c.waitForAPI(ctx)
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
			c.logger.Warn("could not list Deployments and DaemonSets yet; until they are listed, the newest Pod " +
				"of a module on a base determines the active version")
		}
		c.adopt()
		return c.serveBases(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// waitForAPI blocks until the API server answers or ctx is done. It avoids starting informers during an outage,
// because they may wait for a minute before they retry. The Leases of Nodes would expire in that time.
func (c *Controller) waitForAPI(ctx context.Context) {
	logged := false
	for ctx.Err() == nil {
		_, err := c.client.Discovery().ServerVersion()
		// informers log missing permissions
		if err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return
		}
		if !logged {
			c.logger.Warn("the Kubernetes API server is not reachable yet; retrying", "err", err)
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// serveBases runs the components that require synchronized informers.
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

// adopt adds the bases of existing Nodes to the registry, so that they are queried immediately. It ignores Nodes that
// no controller has created.
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
				"ignoring this Node, because it was not created by a module controller (%v); delete the Node", err)
			c.logger.Warn("ignoring a Node with the labels of a base, because it was not created by a "+
				"module controller; "+
				"delete the Node",
				"node", n.Name, "err", err)
			continue
		}
		c.registry.Adopt(info, n.CreationTimestamp.Time)
	}
}

// isConnected reports whether a tunnel is connected. The HTTP tunnel is treated as connected while it listens,
// because bases open the connections for heartbeats.
func (c *Controller) isConnected(key tunnel.Key) bool {
	switch {
	case key == tunnel.MQTT && c.mqtt != nil:
		return c.mqtt.Connected()
	case key == tunnel.HTTP && c.http != nil:
		return c.http.Addr() != ""
	default:
		return true
	}
}

// Errors returned by Ready.
var (
	errNotSynced  = errors.New("the informers have not synchronized yet")
	errNotStarted = errors.New("the tunnels have not started yet")
)

// Ready returns an error unless the informers have synchronized and the tunnels are running. It ignores the state of
// the broker connection. A controller that is not ready receives no heartbeats over HTTP, and blocks the rollout of
// its own Deployment. To check the broker connection, use Connected.
func (c *Controller) Ready() error {
	if !c.nodes.Informer().HasSynced() || !c.provider.Informer().HasSynced() {
		return errNotSynced
	}
	if !c.serving.Load() {
		return errNotStarted
	}
	return nil
}

// Connected returns an error unless the controller is ready and, if the MQTT tunnel is enabled, connected to the
// broker.
func (c *Controller) Connected() error {
	if err := c.Ready(); err != nil || c.mqtt == nil {
		return err
	}
	if err := c.mqtt.ConnectionError(); err != nil {
		return fmt.Errorf("MQTT tunnel: %w", err)
	}
	return nil
}
