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
			Networks:     c.networks,
			DetectWithin: detectWithin(c.opts.UnreachableAfter), TimeScale: c.opts.timeScale(),
			ClearRetained: !m.KeepRetained,
			OnConnected: func() {
				c.requests.FailTunnel(tunnel.MQTT, "the broker connection was lost after the request was sent")
				c.registry.Reconnected(tunnel.MQTT)
				c.requestSweep()
			},
			Logger: c.logger,
		}, listener{c})
		c.requests.AddTunnel(guardedTunnel{c.mqtt, c.checkOperation})
	}
	if h := c.opts.HTTP; h != nil {
		c.http = httptunnel.New(httptunnel.Options{
			Addr: h.Addr, TLS: h.TLS, Token: h.Token, Networks: c.networks, Proxy: h.Proxy,
			OperationTimeout: c.opts.InstallTimeout, TimeScale: c.opts.timeScale(), Logger: c.logger,
		}, listener{c})
		c.requests.AddTunnel(guardedTunnel{c.http, c.checkOperation})
	}
	return nil
}

// probeDial returns the function that dials bases of both tunnels for module probes. The function connects through
// the proxy of the HTTP tunnel. It is nil if no proxy is set.
func (c *Controller) probeDial() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if h := c.opts.HTTP; h != nil && h.Proxy != nil {
		return httptunnel.ThroughProxy(h.Proxy)
	}
	return nil
}

// detectWithin returns the time within which the MQTT tunnel must detect a half-open broker connection, so that the
// connection does not make a base unreachable; 0 means the default. The time is at least 10 s, because a busy machine
// can delay the pings.
func detectWithin(unreachableAfter time.Duration) time.Duration {
	if unreachableAfter == 0 || unreachableAfter >= api.UnreachableAfter {
		return 0
	}
	return max(unreachableAfter*14/25, 10*time.Second)
}

// wirePods creates the provider, which serves the Pods on bases.
func (c *Controller) wirePods() {
	c.events = record.NewBroadcaster()
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component})
	c.provider = vpod.New(vpod.Options{
		Workers: c.opts.VNodeWorkers, InstallTimeout: c.opts.InstallTimeout, UninstallTimeout: c.opts.UninstallTimeout,
		MaxAttempts: c.opts.InstallAttempts, Drain: c.opts.Drain,
		TimeScale:            c.opts.timeScale(),
		Recorder:             c.recorder,
		FailedPods:           podstatus.FailedRule(c.opts.FailedPods),
		ModuleFailed:         c.reportFailure,
		CommandSent:          c.logCommand,
		CommandFinished:      c.recordResult,
		AddTolerationFor:     c.addTolerationFor(),
		KeepSameVersion:      c.opts.KeepSameVersion,
		EndpointLag:          c.reachability.endpointLag,
		InstallRecordChanged: func(identity string) { c.nodeReconciler.InstallRecordChanged(identity) },
		SaveInstallRecord: func(ctx context.Context,
			identity string) {
			c.nodeReconciler.SaveInstallRecord(ctx, identity)
		},
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
	}, c.client, c.registry, c.requests)
}

// addTolerationFor returns the environment whose toleration the controller adds to Pods that tolerate no environment.
// An empty string disables adding the toleration.
func (c *Controller) addTolerationFor() string {
	if c.opts.LeavePodTolerations {
		return ""
	}
	return c.opts.Env
}

// settings returns the settings that are common to all Nodes.
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
		TimeScale:     c.opts.timeScale(),
		Connected:     c.isConnected,
		Tunnels:       c.tunnels(),
		Recorder:      c.recorder,
		Requested:     c.provider.RequestedMemory,
		InstallRecord: c.provider.InstallRecord,
		OnOwned: func(identity, nodeName, ledger string) {
			c.provider.Serve(identity, nodeName, ledger)
			if c.moduleView != nil {
				c.moduleView.Resync(nodeName)
			}
		},
		OnLost:        c.provider.StopServing,
		OnNodeDeleted: c.provider.DeletePods,
		Logger:        c.logger,
	}, c.client, c.nodes.Lister(), c.registry)
	changed := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
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
		return fmt.Errorf("watching Nodes: %w", err)
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
	leaseChanged := func(obj any, deleted bool) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if l, ok := obj.(*coordinationv1.Lease); ok {
			c.nodeReconciler.HandlePeerLease(l, deleted)
		}
	}
	_, err := c.peers.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { leaseChanged(obj, false) },
		UpdateFunc: func(_, obj any) { leaseChanged(obj, false) },
		DeleteFunc: func(obj any) { leaseChanged(obj, true) },
	})
	if err != nil {
		return fmt.Errorf("watching the Leases of controllers: %w", err)
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
