package controller

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	httptunnel "github.com/koupleless/koupsandbox/controller/internal/tunnel/http"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel/mqtt"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
	"github.com/koupleless/koupsandbox/controller/internal/vpod"
	"github.com/koupleless/koupsandbox/controller/labels"
)

func (c *Controller) wireTunnels() error {
	var err error
	c.networks, err = tunnel.ParseNetworks(c.opts.BaseNetworks)
	if err != nil {
		return err
	}
	if m := c.opts.MQTT; m != nil {
		url, err := m.url()
		if err != nil {
			return err
		}
		c.mqtt = mqtt.New(mqtt.Options{
			Broker: url, Username: m.Username, Password: m.Password, TLS: m.TLS,
			ClientID: cmp.Or(m.ClientPrefix, "koupleless") + "@@@" + c.opts.ClientID, Env: c.opts.Env,
			Networks: c.networks,
			Notice:   noticeWithin(c.opts.UnreachableAfter), Speed: c.opts.speed(), ClearRetained: !m.KeepRetained,
			OnConnected: func() {
				c.dialog.LostAll(tunnel.MQTT, "the connection to the broker was lost meanwhile")
				c.registry.Reconnected(tunnel.MQTT)
				c.wake()
			},
			Logger: c.logger,
		}, listener{c})
		c.dialog.Use(guarded{c.mqtt, c.mayOperate})
	}
	if h := c.opts.HTTP; h != nil {
		c.http = httptunnel.New(httptunnel.Options{
			Addr: h.Addr, TLS: h.TLS, Token: h.Token, Networks: c.networks, Proxy: h.Proxy,
			OperationTimeout: c.opts.InstallTimeout, Speed: c.opts.speed(), Logger: c.logger,
		}, listener{c})
		c.dialog.Use(guarded{c.http, c.mayOperate})
	}
	return nil
}

// probeDial returns how probes connect to bases of both tunnels: through the proxy of the HTTP tunnel if there is
// one. Nil means directly.
func (c *Controller) probeDial() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if h := c.opts.HTTP; h != nil && h.Proxy != nil {
		return httptunnel.ThroughProxy(h.Proxy)
	}
	return nil
}

// noticeWithin returns how soon a half-open connection to the broker must be noticed, so that no base becomes
// unreachable because of it; 0 means the default. Below 10 s, a busy machine could break the connection.
func noticeWithin(unreachableAfter time.Duration) time.Duration {
	if unreachableAfter == 0 || unreachableAfter >= api.UnreachableAfter {
		return 0
	}
	return max(unreachableAfter*14/25, 10*time.Second)
}

// wirePods prepares the provider of Pods.
func (c *Controller) wirePods() {
	c.events = record.NewBroadcaster()
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component})
	c.provider = vpod.New(vpod.Options{
		Workers: c.opts.VNodeWorkers, InstallTimeout: c.opts.InstallTimeout, UninstallTimeout: c.opts.UninstallTimeout,
		MaxAttempts: c.opts.InstallAttempts, Drain: c.opts.Drain,
		TimeScale:            c.opts.speed(),
		Recorder:             c.recorder,
		FailedPods:           podstatus.FailedRule(c.opts.FailedPods),
		ModuleFailed:         c.reportFailure,
		CommandSent:          c.asked,
		CommandFinished:      c.answered,
		AddTolerationFor:     c.addTolerationFor(),
		KeepSameVersion:      c.opts.KeepSameVersion,
		EndpointLag:          c.reach.unsettled,
		InstallRecordChanged: func(identity string) { c.nodeReconciler.LedgerChanged(identity) },
		SaveInstallRecord:    func(ctx context.Context, identity string) { c.nodeReconciler.KeepLedger(ctx, identity) },
		Node: func(name string) *corev1.Node {
			n, err := c.nodes.Lister().Get(name)
			if err != nil {
				return nil
			}
			return n
		},
		ProbeDial: c.probeDial(),
		Workloads: c.workloads.Apps().V1(),
		Logger:    c.logger,
	}, c.client, c.registry, c.dialog)
}

// addTolerationFor returns the environment whose toleration is added to Pods without one; empty for none.
func (c *Controller) addTolerationFor() string {
	if c.opts.LeavePodTolerations {
		return ""
	}
	return c.opts.Env
}

// settings returns the settings of all Nodes.
func (c *Controller) settings() vnode.Settings {
	s := vnode.Settings{Env: c.opts.Env}
	if c.kubelet != nil {
		s.KubeletAddress = c.opts.Kubelet.Host
		if at, ok := c.kubelet.Addr().(*net.TCPAddr); ok {
			s.KubeletPort = int32(at.Port) //nolint:gosec // a port fits
		}
	}
	return s
}

func (c *Controller) wireNodes() error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Component + "=" + labels.Vnode
		}), informers.WithTransform(dropManagedFields))
	c.nodes = factory.Core().V1().Nodes()
	c.nodeReconciler = vnode.New(vnode.Options{
		Settings: c.settings(),
		Holder:   c.opts.ClientID,
		Cluster:  c.opts.Cluster,
		MaxLevel: c.opts.WorkloadMaxLevel,

		LeaseDuration: c.opts.LeaseDuration,
		NodeLease:     c.opts.NodeLease,
		Speed:         c.opts.speed(),
		Sees:          c.sees,
		Tunnels:       c.tunnels(),
		Recorder:      c.recorder,
		Requested:     c.provider.RequestedMemory,
		Ledger:        c.provider.InstallRecord,
		Owned: func(identity, nodeName, ledger string) {
			c.provider.Serve(identity, nodeName, ledger)
			if c.view != nil {
				c.view.Resync(nodeName)
			}
		},
		Lost:   c.provider.StopServing,
		Gone:   c.provider.DeletePods,
		Logger: c.logger,
	}, c.client, c.nodes.Lister(), c.registry)
	changed := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if n, ok := obj.(*corev1.Node); ok {
			c.nodeReconciler.NodeChanged(n)
		}
	}
	_, err := c.nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watching vnodes: %w", err)
	}
	return c.wirePeers()
}

// wirePeers watches the Leases of the controllers of this environment.
func (c *Controller) wirePeers() error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0,
		informers.WithNamespace(corev1.NamespaceNodeLease),
		informers.WithTweakListOptions(
			func(o *metav1.ListOptions) { o.LabelSelector = c.nodeReconciler.PeerSelector() }))
	c.peers = factory.Coordination().V1().Leases().Informer()
	tell := func(obj any, deleted bool) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if l, ok := obj.(*coordinationv1.Lease); ok {
			c.nodeReconciler.PeerChanged(l, deleted)
		}
	}
	_, err := c.peers.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(obj, false) },
		UpdateFunc: func(_, obj any) { tell(obj, false) },
		DeleteFunc: func(obj any) { tell(obj, true) },
	})
	if err != nil {
		return fmt.Errorf("watching the leases of controllers: %w", err)
	}
	return nil
}

func (c *Controller) tunnels() (keys []tunnel.Key) {
	if c.mqtt != nil {
		keys = append(keys, tunnel.MQTT)
	}
	if c.http != nil {
		keys = append(keys, tunnel.HTTP)
	}
	return keys
}

func dropManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}
