package incluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// fieldManager owns what a sandbox sets in the manifests.
	fieldManager = "koupsandbox"
	// reachTime is how long a Pod that is Ready may take until heartbeats reach it: kube-proxy has
	// to hear of it.
	reachTime = 15 * time.Second
	// reachPause is between two attempts to reach it.
	reachPause = 50 * time.Millisecond
	// backOffPatience is how long a kubelet may take to start a container again before its Pod is
	// replaced: those of the sandbox's own clusters take a second, others minutes.
	backOffPatience = 4 * time.Second
)

// Options of a Controller.
type Options struct {
	// Config reaches the cluster as an administrator. Required.
	Config *rest.Config
	// Containers reaches the containers of the Pods. nil = nobody does: the cluster is the user's. What
	// is there is left as it is unless a sandbox has made it, nothing of it leads to this machine, and
	// no controller can be killed or paused.
	Containers Containers
	// Owner is the value of cluster.SandboxLabel of the objects: state.Dir.Label. Required without Containers.
	Owner string
	// Log gets every line that the Pods log, behind the Pod's name, each with one Write. Default:
	// nobody gets them.
	Log io.Writer
	// Changed is told of every change of a controller, in order; it must not block, nor call the
	// Controller. Default: nobody is told.
	Changed func(Change)
}

// Containers does to containers of a node what Kubernetes does not. An id is that of the container
// runtime.
type Containers interface {
	// KillContainer ends a container as kill -9 would; one that has ended is fine.
	KillContainer(ctx context.Context, node, id string) error
	// PauseContainer freezes all processes of a container, until ResumeContainer.
	PauseContainer(ctx context.Context, node, id string) error
	ResumeContainer(ctx context.Context, node, id string) error
}

// Controller runs module controllers in a cluster. Each has a Deployment with one Pod. Its methods may be called
// concurrently; methods that wait need Start to run.
type Controller struct {
	o       Options
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// dial tells whether something listens; tests replace it.
	dial func(ctx context.Context, addr string) error
	kick chan struct{} // has room for one: the Pods have changed

	mu       sync.Mutex // guards what follows
	pods     cache.Store
	wanted   int           // number of controllers
	stopped  map[int]bool  // by number
	revision string        // revision of the newest settings
	ports    map[int]int32 // of the nodes, for heartbeats, by number
	marks    map[string]mark
	replicas []Replica     // by number, from 1
	extra    int           // Pods that are none of these
	change   chan struct{} // closed at the next change
}

// New makes the clients. It does not call the cluster.
func New(o Options) (*Controller, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	dyn, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return newController(o, client, dyn), nil
}

func newController(o Options, client kubernetes.Interface, dyn dynamic.Interface) *Controller {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Changed == nil {
		o.Changed = func(Change) {}
	}
	return &Controller{
		o: o, client: client, dynamic: dyn, dial: dial, kick: make(chan struct{}, 1), pods: cache.NewStore(cache.MetaNamespaceKeyFunc),
		stopped: map[int]bool{}, ports: map[int]int32{}, marks: map[string]mark{}, change: make(chan struct{}),
	}
}

// Start follows the Pods and their logs until ctx ends, and returns nil then. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	api := c.client.CoreV1().Pods(namespace)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = c.selector()
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = c.selector()
			return api.Watch(ctx, o)
		},
	}
	// A shared informer would call its handlers some time after it has changed the store: states in
	// between would be missed.
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, c.client),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.refresh() }, UpdateFunc: func(any, any) { c.refresh() }, DeleteFunc: func(any) { c.refresh() },
		},
	})
	c.mu.Lock()
	c.pods = store
	c.mu.Unlock()
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { informer.RunWithContext(ctx) })
	logs := &logs{c: c, known: map[string]bool{}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.kick:
		}
		logs.follow(ctx, &parts)
	}
}

// Ensure applies the manifests with these settings and blocks until every Pod has them and is
// ready, and heartbeats reach it. What is there already is brought in line. A Pod that ends again
// and again makes it fail before ctx does.
func (c *Controller) Ensure(ctx context.Context, s Settings) error {
	s.Owner = c.o.Owner
	objects, err := manifests(s)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.wanted, c.revision = s.Replicas, s.revision()
	clear(c.stopped)
	c.mu.Unlock()
	c.refresh()
	for _, object := range objects {
		cluster.Own(object, c.o.Owner)
	}
	if c.shared() { // check all objects before the first one is applied
		for _, object := range objects {
			if _, err := c.theirs(ctx, object); err != nil {
				return err
			}
		}
	}
	for _, object := range objects {
		if _, err := c.apply(ctx, object); err != nil {
			return err
		}
	}
	if err := c.removeDeployments(ctx, s.Replicas); err != nil {
		return err
	}
	if c.shared() {
		return c.until(ctx, c.settled)
	}
	if err := c.openPorts(ctx, s.Replicas); err != nil {
		return err
	}
	if err := c.until(ctx, c.settled); err != nil {
		return err
	}
	return c.reach(ctx)
}

// api is that of the objects like this one.
func (c *Controller) api(object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()) // right for the kinds of our manifests
	if namespace := object.GetNamespace(); namespace != "" {
		return c.dynamic.Resource(resource).Namespace(namespace)
	}
	return c.dynamic.Resource(resource)
}

func (c *Controller) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	api := c.api(object)
	if c.shared() {
		if theirs, err := c.theirs(ctx, object); theirs || err != nil {
			return object, err
		}
	}
	applied, err := api.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

// openPorts gives each controller a port of its own on the nodes, at which heartbeats reach it.
func (c *Controller) openPorts(ctx context.Context, replicas int) error {
	ports := map[int]int32{}
	for number := 1; number <= replicas; number++ {
		object, err := heartbeatService(number)
		if err != nil {
			return err
		}
		applied, err := c.apply(ctx, object)
		if err != nil {
			return err
		}
		var service corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, &service); err != nil {
			return fmt.Errorf("reading Service %s: %w", applied.GetName(), err)
		}
		ports[number] = service.Spec.Ports[0].NodePort
	}
	c.mu.Lock()
	c.ports = ports
	c.mu.Unlock()
	c.refresh()
	return nil
}

// Replicas tells how the controllers are, in the order of their numbers.
func (c *Controller) Replicas() []Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.replicas)
}

// refresh computes the state of the controllers, and reports the changes.
func (c *Controller) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods := podsOf(c.pods)
	assigned := map[int]*corev1.Pod{}
	running := map[string]bool{}
	for _, p := range pods {
		running[statusOf(p).ContainerID] = true
		number, _ := strconv.Atoi(p.Labels[numberLabel])
		if number <= c.wanted && (assigned[number] == nil || !leaving(p)) {
			assigned[number] = p
		}
	}
	c.extra = len(pods) - len(assigned)
	maps.DeleteFunc(c.marks, func(id string, _ mark) bool { return !running[id] })
	next := make([]Replica, c.wanted)
	for i := range next {
		next[i] = replicaOf(i+1, assigned[i+1], c.marks, c.ports[i+1], c.stopped[i+1])
	}
	before := c.replicas
	c.replicas = next
	for i := range max(len(before), len(next)) {
		was, is := Replica{Number: i + 1, State: supervise.Exited}, Replica{Number: i + 1, State: supervise.Exited}
		if i < len(before) {
			was = before[i]
		}
		if i < len(next) {
			is = next[i]
		}
		for _, change := range changes(was, is) {
			c.o.Changed(change)
		}
	}
	close(c.change)
	c.change = make(chan struct{})
	select {
	case c.kick <- struct{}{}:
	default: // it will look
	}
}

// selector selects the Pods of the controllers, and no other Pods.
func (c *Controller) selector() string {
	s := nameLabel + "=" + name + "," + numberLabel
	if c.o.Owner != "" {
		s += "," + cluster.SandboxLabel + "=" + c.o.Owner
	}
	return s
}

// podsOf lists the Pods of a store, the oldest first.
func podsOf(store cache.Store) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range store.List() {
		if p, ok := o.(*corev1.Pod); ok {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// until blocks until missing returns nothing. It is called at every change, with c.mu held; fatal
// says that waiting is in vain.
func (c *Controller) until(ctx context.Context, missing func() (what string, fatal error)) error {
	for {
		c.mu.Lock()
		what, fatal := missing()
		change := c.change
		hopeless := c.backingOff()
		c.mu.Unlock()
		switch {
		case fatal != nil:
			return fatal
		case what == "":
			return nil
		}
		for _, pod := range hopeless {
			if err := c.deletePod(ctx, pod, 0); err != nil {
				return err
			}
		}
		select {
		case <-change:
		case <-time.After(backOffPatience): // somebody may back off for that long now
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// backingOff lists the Pods whose container was killed, and is not started again for a while:
// others can come at once.
func (c *Controller) backingOff() (pods []string) {
	for _, r := range c.replicas {
		if r.backsOff && r.killed && time.Since(r.endedAt) > backOffPatience {
			pods = append(pods, r.Pod)
		}
	}
	return pods
}

// settled says what is missing until each controller has the newest settings and is ready, and
// there are no other Pods.
func (c *Controller) settled() (what string, fatal error) {
	for _, r := range c.replicas {
		if what, fatal = c.ready(r); what != "" || fatal != nil {
			return what, fatal
		}
	}
	if c.extra > 0 {
		what = "Pods of an earlier configuration have not ended"
	}
	return what, nil
}

// ready says what is missing until a controller is ready with the newest settings.
func (c *Controller) ready(r Replica) (what string, fatal error) {
	switch {
	case r.stopped:
		return "", nil
	case r.Pod == "" || r.deleting || r.revision != c.revision:
		return fmt.Sprintf("%s has no Pod yet", runner.NameOf(r.Number)), nil
	case r.backsOff && !r.killed:
		return "", fmt.Errorf("%s ends again and again: Pod %s: %s", runner.NameOf(r.Number), r.Pod, r.lastExit)
	case !r.Ready:
		return fmt.Sprintf("%s is not ready: Pod %s: %s", runner.NameOf(r.Number), r.Pod, r.Reason), nil
	}
	return "", nil
}

// reach blocks until heartbeats reach every controller that runs.
func (c *Controller) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reachTime, fmt.Errorf("not within %s", reachTime))
	defer cancel()
	for _, r := range c.Replicas() {
		if r.stopped {
			continue
		}
		for {
			err := c.dial(ctx, r.Heartbeats)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("heartbeats do not reach Pod %s from this machine (%w: %w): keep the controller here, with --controller host", r.Pod, err, context.Cause(ctx))
			case <-time.After(reachPause):
			}
		}
	}
	return nil
}

func dial(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
