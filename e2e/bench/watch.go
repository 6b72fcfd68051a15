package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

const (
	// limit is how long the Pods may take for what is waited for.
	limit = 5 * time.Minute
	// countEvery is how often the Pods that a watch has told of are counted meanwhile.
	countEvery = 20 * time.Millisecond
)

// pods are the Pods of a namespace, by one watch: to list them again and again would disturb what
// is measured.
type pods struct {
	store cache.Store
	stop  func() // ends the watch, and waits
}

// watchPods begins with a namespace without Pods.
func watchPods(ctx context.Context, client kubernetes.Interface) (*pods, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	p := &pods{store: informer.GetStore()}
	var err error
	if p.stop, err = watch(ctx, factory); err == nil && len(p.store.List()) > 0 {
		p.stop()
		err = fmt.Errorf("namespace %s has %d Pods before anything was created", namespace, len(p.store.List()))
	}
	return p, err
}

// watch starts the informers of the factories and returns when they know what is.
func watch(ctx context.Context, factories ...informers.SharedInformerFactory) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	stop = sync.OnceFunc(func() {
		cancel()
		for _, f := range factories {
			f.Shutdown()
		}
	})
	for _, f := range factories {
		f.Start(ctx.Done())
	}
	for _, f := range factories {
		for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
			if !synced {
				stop()
				return nil, fmt.Errorf("watching %s: %w", kind, context.Cause(ctx))
			}
		}
	}
	return stop, nil
}

// count returns how many Pods there are, and how many are Ready and stay, by version.
func (p *pods) count() (all int, ready map[string]int) {
	ready = map[string]int{}
	for _, object := range p.store.List() {
		all++
		if pod, is := object.(*corev1.Pod); is && module.IsReady(pod) && pod.DeletionTimestamp == nil {
			ready[pod.Spec.Containers[0].Env[0].Value]++
		}
	}
	return all, ready
}

// wait returns when ok does. The error says how far it has come.
func (p *pods) wait(ctx context.Context, what string, ok func(all int, ready map[string]int) bool) error {
	err := wait.PollUntilContextTimeout(ctx, countEvery, limit, true, func(context.Context) (bool, error) { return ok(p.count()), nil })
	if err != nil {
		all, ready := p.count()
		return fmt.Errorf("waiting until %s: %w; there are %d Pods, Ready by version: %v", what, err, all, ready)
	}
	return nil
}

// vigil sees every renewal of every base's lease, and every change of a Node.
type vigil struct {
	stop func()

	mu       sync.Mutex
	renewed  map[string]time.Time
	limit    map[string]time.Duration
	missed   map[string]bool // leases
	notReady map[string]bool // Nodes
	longest  time.Duration   // between two renewals
}

func newVigil() *vigil {
	return &vigil{renewed: map[string]time.Time{}, limit: map[string]time.Duration{}, missed: map[string]bool{}, notReady: map[string]bool{}}
}

// keepVigil begins with the leases and Nodes of n bases.
func keepVigil(ctx context.Context, client kubernetes.Interface, n int) (*vigil, error) {
	v := newVigil()
	nodes := informers.NewSharedInformerFactory(client, 0)
	leases := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(corev1.NamespaceNodeLease),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = labels.Component + "=" + labels.VnodeLease }))
	for informer, see := range map[cache.SharedIndexInformer]func(any){nodes.Core().V1().Nodes().Informer(): v.node, leases.Coordination().V1().Leases().Informer(): v.lease} {
		handler := cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, now any) { see(now) }}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching leases and Nodes: %w", err)
		}
	}
	var err error
	if v.stop, err = watch(ctx, nodes, leases); err != nil {
		return nil, err
	}
	if known := len(leases.Coordination().V1().Leases().Informer().GetStore().List()); known != n {
		v.stop()
		return nil, fmt.Errorf("%d bases have %d leases", n, known)
	}
	return v, nil
}

// lease takes a lease as it is now written. Its times are the controller's.
func (v *vigil) lease(object any) {
	if l, is := object.(*coordinationv1.Lease); is {
		v.renewal(l.Name, ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time, time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second)
	}
}

func (v *vigil) renewal(name string, now time.Time, limit time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.limit[name] = limit
	v.passed(name, now)
	v.renewed[name] = now
}

// passed takes note of the time since the last renewal. mu is held.
func (v *vigil) passed(name string, now time.Time) {
	before, known := v.renewed[name]
	if !known {
		return
	}
	v.longest = max(v.longest, now.Sub(before))
	if now.Sub(before) > v.limit[name] {
		v.missed[name] = true
	}
}

func (v *vigil) node(object any) {
	node, is := object.(*corev1.Node)
	if !is {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			v.notReady[node.Name] = true
		}
	}
}

// end ends the watch; the time since the last renewal of each lease counts too.
func (v *vigil) end() {
	now := time.Now()
	v.stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range v.renewed {
		v.passed(name, now)
	}
}
