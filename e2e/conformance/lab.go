package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// timings are what the controller under test keeps. They bound waits; an expectation that is about
// one of them checks it.
type timings struct {
	// unreachable and dead are the silences after which a base does not serve, and is gone.
	unreachable, dead time.Duration
	// healthEvery and listEvery are how often a base is asked.
	healthEvery, listEvery time.Duration
	// patience is how long anything else may take on a busy machine.
	patience time.Duration
}

// original timings are those of the original controller (behaviour B5, B6).
var originalTimings = timings{
	unreachable: 25 * time.Second, dead: 60 * time.Second, healthEvery: 10 * time.Second, listEvery: 15 * time.Second,
	patience: 20 * time.Second,
}

// lab is what all expectations share: a sandbox with the controller under test.
type lab struct {
	timings
	ctx       context.Context // of all that the lab starts
	stop      context.CancelFunc
	box       *box.Box
	sandbox   *sandbox.Sandbox
	client    kubernetes.Interface
	broker    box.Broker
	env       string
	replicas  int
	long      bool
	heartbeat time.Duration
	// heartbeats are the endpoints of the controllers for bases over HTTP.
	heartbeats []string

	podList     corelisters.PodLister
	nodeList    corelisters.NodeLister
	events      corelisters.EventLister
	deployments appslisters.DeploymentLister
	slices      discoverylisters.EndpointSliceLister

	bells   sync.Map // of worlds, a *bell by namespace
	numbers atomic.Uint32
	working sync.WaitGroup // commands that bases are busy with

	mu      sync.Mutex
	closed  bool
	bases   []*base
	moments map[string][]moment // of Pods, by namespace
}

// portFile is a file by which each controller's port for heartbeats gets known.
const portFile = "conformance-port"

// open brings the sandbox up with a controller and watches its API until close.
func open(ctx context.Context, b *box.Box, controller v1alpha1.Controller, t timings) (*lab, error) {
	controller.Files = withPort(controller.Files)
	one := 1
	spec := v1alpha1.Spec{Controller: controller, Bases: v1alpha1.Bases{Count: &one, Name: "of-the-sandbox"}}
	if err := b.Up(ctx, spec); err != nil {
		return nil, err
	}
	l := &lab{timings: t, box: b, replicas: 1, moments: map[string][]moment{}}
	// MQTT bases send heartbeats every 10 s (protocol 3.2); with shorter silences they must hurry.
	l.heartbeat = min(10*time.Second, t.unreachable/4)
	if controller.Replicas != nil {
		l.replicas = *controller.Replicas
	}
	l.ctx, l.stop = context.WithCancel(ctx)
	var err error
	if l.sandbox, err = b.Open(ctx); err != nil {
		return nil, err
	}
	if l.broker, err = b.Broker(); err != nil {
		return nil, err
	}
	l.env = l.broker.Env
	for i := range l.replicas {
		text, err := os.ReadFile(filepath.Join(b.Folder(), "files", l.controller(i+1), portFile))
		if err != nil {
			return nil, fmt.Errorf("finding where the controller takes heartbeats over HTTP: %w", err)
		}
		if _, err := strconv.Atoi(string(text)); err != nil {
			return nil, fmt.Errorf("finding where the controller takes heartbeats over HTTP: %w", err)
		}
		l.heartbeats = append(l.heartbeats, "http://127.0.0.1:"+string(text))
	}
	return l, l.watch()
}

func withPort(files map[string]string) map[string]string {
	all := map[string]string{portFile: "{{.HTTPTunnelPort}}"}
	for name, text := range files {
		all[name] = text
	}
	return all
}

// controller is the name of a replica, from 1.
func (l *lab) controller(n int) string {
	if n == 1 {
		return box.ControllerProgram
	}
	return fmt.Sprintf("%s-%d", box.ControllerProgram, n)
}

// watch follows the objects that expectations look at.
func (l *lab) watch() error {
	config, err := l.box.REST()
	if err != nil {
		return err
	}
	if l.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(l.client, 0)
	pods, nodes, events := factory.Core().V1().Pods(), factory.Core().V1().Nodes(), factory.Core().V1().Events()
	deployments, endpoints := factory.Apps().V1().Deployments(), factory.Discovery().V1().EndpointSlices()
	l.podList, l.nodeList, l.events = pods.Lister(), nodes.Lister(), events.Lister()
	l.deployments, l.slices = deployments.Lister(), endpoints.Lister()
	ring := cache.ResourceEventHandlerFuncs{AddFunc: l.ring, UpdateFunc: func(_, o any) { l.ring(o) }, DeleteFunc: l.ring}
	follow := cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { l.note(o, false) }, UpdateFunc: func(_, o any) { l.note(o, false) }, DeleteFunc: func(o any) { l.note(o, true) },
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		pods.Informer(): follow, nodes.Informer(): ring, events.Informer(): ring, deployments.Informer(): ring, endpoints.Informer(): ring,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching the API: %w", err)
		}
	}
	factory.Start(l.ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(l.ctx.Done()) {
		if !synced {
			return fmt.Errorf("watching %s: %w", kind, l.ctx.Err())
		}
	}
	return nil
}

// ring tells the world of an object that something has changed, or all of them, if it is in no namespace.
func (l *lab) ring(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if one, ok := o.(metav1.Object); ok && one.GetNamespace() != "" {
		if b, of := l.bells.Load(one.GetNamespace()); of {
			b.(*bell).ring()
		}
		return
	}
	l.bells.Range(func(_, b any) bool {
		b.(*bell).ring()
		return true
	})
}

// note keeps a change of a Pod.
func (l *lab) note(o any, gone bool) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if p, ok := o.(*corev1.Pod); ok {
		l.mu.Lock()
		l.moments[p.Namespace] = append(l.moments[p.Namespace], moment{time.Now(), p, gone})
		l.mu.Unlock()
	}
	l.ring(o)
}

func (l *lab) join(b *base) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bases = append(l.bases, b)
}

// everyone are all bases of the run.
func (l *lab) everyone() []*base {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.bases)
}

// close ends the bases and what they are busy with. The sandbox stays up.
func (l *lab) close() {
	l.stop() // a base may wait for what an expectation that failed did not come to
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, b := range l.everyone() {
		all.Go(b.disconnect)
	}
	all.Wait()
	l.working.Wait()
	l.sandbox.Close()
}

// track does what a base is to do, unless the run has ended, which waits for it.
func (l *lab) track(f func()) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.working.Add(1)
	}
	l.mu.Unlock()
	if !closed {
		defer l.working.Done()
		f()
	}
}
