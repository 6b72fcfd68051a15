package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

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

// Component is the name under which the controller records Events.
const Component = "module-controller"

// Controller serves the bases of one environment. Make one with New.
type Controller struct {
	opts           Options
	logger         *slog.Logger
	metrics        *metrics.Metrics
	client         kubernetes.Interface
	registry       *base.Registry
	dialog         *base.Dialog
	nodeReconciler *vnode.Reconciler
	provider       *vpod.Provider
	pods           *node.PodController
	bases          corev1informers.NodeInformer // the vnodes
	nodes          cache.SharedIndexInformer    // bases.Informer()
	events         record.EventBroadcaster
	mqtt           *mqtt.Tunnel
	http           *httptunnel.Tunnel
	reporter       *report.Reporter
	journal        *kubelet.Journal
	kubelet        *kubelet.Server  // nil unless logs and exec are served
	view           *moduleview.View // nil unless Modules are shown
	workloads      []cache.InformerSynced
	baseline       *baseline.Selector            // nil unless bases are told what to install
	rooms          []func(context.Context) error // optional ones, started with the rest
	due            chan struct{}                 // a question to a base may be due
	rejects        *rejections
}

// New prepares a controller: it checks the options, and listens where logs and
// exec are served, since Nodes name that port. It dials nothing.
func New(opts Options) (*Controller, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	c := &Controller{opts: opts, logger: opts.Logger, metrics: metrics.New(), journal: kubelet.NewJournal(0), due: make(chan struct{}, 1)}
	c.rejects = newRejections(c.metrics, c.logger)
	config := rest.CopyConfig(opts.Config)
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	config.UserAgent = Component
	if config.QPS == 0 {
		config.QPS = -1 // the API server's own priority and fairness decides, not a guess made here
	}
	config.Wrap(c.metrics.CountRequests)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the Kubernetes client: %w", err)
	}
	c.client = client
	c.registry = base.NewRegistry(base.Options{
		UnreachableAfter: opts.UnreachableAfter, DeadAfter: opts.DeadAfter,
		HealthInterval: opts.HealthInterval, ListInterval: opts.ListInterval,
		Observer: c.baseChanged,
	})
	c.dialog = base.NewDialog(c.registry)
	if err := c.wireTunnels(); err != nil {
		return nil, err
	}
	if err := c.listenKubelet(); err != nil {
		return nil, err
	}
	c.wireNodes()
	if err := c.wirePods(); err != nil {
		return nil, err
	}
	if err := c.wireRooms(config); err != nil {
		return nil, err
	}
	c.gauges()
	return c, nil
}

func (c *Controller) wireTunnels() error {
	if m := c.opts.MQTT; m != nil {
		url, err := m.url()
		if err != nil {
			return err
		}
		prefix := m.ClientPrefix
		if prefix == "" {
			prefix = "koupleless"
		}
		c.mqtt = mqtt.New(mqtt.Options{
			Broker: url, Username: m.Username, Password: m.Password, TLS: m.TLS,
			ClientID: prefix + "@@@" + c.opts.ClientID, Env: c.opts.Env,
			OnConnected: func() {
				c.dialog.LostAll(tunnel.MQTT, "the connection to the broker was lost meanwhile")
				c.registry.Reconnected(tunnel.MQTT)
				c.wake()
			},
			Logger: c.logger,
		}, (*listener)(c))
		c.dialog.Use(c.mqtt)
	}
	if h := c.opts.HTTP; h != nil {
		c.http = httptunnel.New(httptunnel.Options{
			Addr: h.Addr, TLS: h.TLS, Dial: h.Dial, Proxy: h.Proxy, OperationTimeout: c.opts.InstallTimeout, Logger: c.logger,
		}, (*listener)(c))
		c.dialog.Use(c.http)
	}
	return nil
}

// slimNode drops what nobody here reads of a Node.
func slimNode(obj any) (any, error) {
	if n, ok := obj.(*corev1.Node); ok {
		n.ManagedFields = nil
	}
	return obj, nil
}

// settings are what all Nodes of this controller have in common.
func (c *Controller) settings() vnode.Settings {
	s := vnode.Settings{Env: c.opts.Env}
	if c.kubelet != nil {
		s.KubeletAddress = c.opts.Kubelet.Host
		if at, ok := c.kubelet.Addr().(*net.TCPAddr); ok {
			s.KubeletPort = int32(at.Port)
		}
	}
	return s
}

func (c *Controller) wireNodes() {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Component + "=" + labels.Vnode
	}), informers.WithTransform(slimNode))
	c.bases = factory.Core().V1().Nodes()
	c.nodes = c.bases.Informer()
	c.nodeReconciler = vnode.New(vnode.Options{
		Settings: c.settings(),
		Holder:   c.opts.ClientID,
		Cluster:  c.opts.Cluster,
		MaxLevel: c.opts.WorkloadMaxLevel,

		LeaseDuration: c.opts.LeaseDuration,
		Requested: func(nodeName string) int64 {
			return c.provider.Requested(nodeName)
		},
		Owned: func(identity, nodeName string) {
			c.provider.Serve(identity, nodeName)
			if c.view != nil {
				c.view.Resync(nodeName)
			}
		},
		Lost: func(identity, nodeName string) { c.provider.Leave(identity, nodeName) },
		Gone: func(ctx context.Context, identity, nodeName string) error {
			return c.provider.Remove(ctx, identity, nodeName)
		},
		Logger: c.logger,
	}, c.client, c.bases.Lister(), c.registry)
}

// podWorkers is how many Pods PodController hands to the provider at once;
// handing over only notes the Pod, so a few are enough.
const podWorkers = 8

func (c *Controller) wirePods() error {
	c.events = record.NewBroadcaster()
	recorder := c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component})
	c.provider = vpod.New(vpod.Options{
		Workers: c.opts.VNodeWorkers, InstallTimeout: c.opts.InstallTimeout, UninstallTimeout: c.opts.UninstallTimeout,
		MaxAttempts: c.opts.InstallAttempts, Drain: c.opts.Drain,
		Recorder:         recorder,
		Failed:           vpod.FailedRule(c.opts.FailedPods),
		Failure:          c.reportFailure,
		Asked:            c.asked,
		Answered:         c.answered,
		AddTolerationFor: c.toleration(),
		Logger:           c.logger,
	}, c.client, c.registry, c.dialog)
	// PodController wants informers for the downward API, which modules do not use: this factory never runs.
	unused := informers.NewSharedInformerFactory(c.client, 0).Core().V1()
	limiter := func() workqueue.TypedRateLimiter[any] { // its own default is ten Pods a second
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](time.Millisecond, 10*time.Second)
	}
	pods, err := node.NewPodController(node.PodControllerConfig{
		PodClient:                            c.client.CoreV1(),
		PodInformer:                          c.provider.Informer(),
		EventRecorder:                        &record.FakeRecorder{}, // an Event for each create and update is a write that tells nobody anything
		Provider:                             c.provider,
		ConfigMapInformer:                    unused.ConfigMaps(),
		SecretInformer:                       unused.Secrets(),
		ServiceInformer:                      unused.Services(),
		SyncPodsFromKubernetesRateLimiter:    limiter(),
		DeletePodsFromKubernetesRateLimiter:  limiter(),
		SyncPodStatusFromProviderRateLimiter: limiter(),
		SkipDownwardAPIResolution:            true,
	})
	if err != nil {
		return fmt.Errorf("preparing the pod controller: %w", err)
	}
	c.pods = pods
	return nil
}

// Start serves until ctx ends, or until a part fails for good. Nodes, Leases
// and modules stay as they are then.
func (c *Controller) Start(ctx context.Context) error {
	watcher := c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	defer c.events.Shutdown()
	defer watcher.Stop()
	if err := c.watchNodes(); err != nil {
		return err
	}
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
	group.Go(func() error { c.nodes.RunWithContext(ctx); return nil })
	for _, start := range c.rooms {
		group.Go(func() error { return start(ctx) })
	}
	group.Go(func() error { return c.provider.Start(ctx) })
	group.Go(func() error { return c.pods.Run(vklog.WithLogger(ctx, vpod.Logger(c.logger)), podWorkers) })
	group.Go(func() error {
		if !cache.WaitForCacheSync(ctx.Done(), c.nodes.HasSynced, c.provider.Informer().HasSynced) {
			return nil
		}
		c.adopt()
		return c.serveBases(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serveBases runs what needs the cluster's state: the tunnels come last, so
// that nothing is heard before it can be acted on.
func (c *Controller) serveBases(ctx context.Context) error {
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

// watchNodes lets the node reconciler know when somebody changes or deletes a vnode.
func (c *Controller) watchNodes() error {
	changed := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if n, ok := obj.(*corev1.Node); ok && c.nodeReconciler.Owns(n.Annotations[labels.Identity]) {
			c.nodeReconciler.NodeChanged(n)
		}
	}
	_, err := c.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watching vnodes: %w", err)
	}
	return nil
}

// adopt takes up the bases that an earlier controller left Nodes of: they are
// probed at once, not only when they next say something.
func (c *Controller) adopt() {
	for _, obj := range c.nodes.GetStore().List() {
		n, ok := obj.(*corev1.Node)
		if !ok || n.Labels[labels.Env] != c.opts.Env {
			continue
		}
		if info, ok := vnode.Info(n); ok {
			c.registry.Adopt(info)
		}
	}
}

// Ready says whether the controller sees the cluster and a tunnel, or why not.
func (c *Controller) Ready() error {
	switch {
	case !c.nodes.HasSynced() || !c.provider.Informer().HasSynced():
		return errors.New("the Kubernetes API has not been read yet")
	case c.mqtt != nil && !c.mqtt.Connected():
		return errors.New("not connected to the MQTT broker")
	}
	select {
	case <-c.pods.Ready():
		return nil
	default:
		return errors.New("the pod controller has not started yet")
	}
}

func (c *Controller) gauges() {
	for liveness, name := range map[base.Liveness]string{base.Alive: "alive", base.Unreachable: "unreachable"} {
		c.metrics.Gauge("module_controller_bases", "Bases by state.", map[string]string{"state": name}, func() float64 {
			return float64(c.registry.Count()[liveness])
		})
	}
	c.metrics.Gauge("module_controller_pods", "Module Pods served here.", nil, func() float64 { return float64(c.provider.Pods()) })
	for queue, depth := range map[string]func() int{"lanes": c.provider.Depth, "nodes": c.nodeReconciler.Depth} {
		c.metrics.Gauge("module_controller_queue_depth", "Work that waits or is under way.", map[string]string{"queue": queue}, func() float64 {
			return float64(depth())
		})
	}
	if c.mqtt != nil {
		c.metrics.Gauge("module_controller_tunnel_connected", "1 while the tunnel is connected.", map[string]string{"tunnel": string(tunnel.MQTT)}, func() float64 {
			if c.mqtt.Connected() {
				return 1
			}
			return 0
		})
	}
}

// Metrics serves what Prometheus reads.
func (c *Controller) Metrics() http.Handler { return c.metrics.Handler() }
