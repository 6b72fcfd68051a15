package incluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// fieldManager is the field manager for server-side apply.
	fieldManager = "koupsandbox"
	// heartbeatTimeout is how long to wait until heartbeats reach a Ready Pod. The wait is needed because kube-proxy
	// updates its rules with a delay.
	heartbeatTimeout = 15 * time.Second
	// heartbeatPoll is the interval between attempts to connect to a heartbeat address.
	heartbeatPoll = 50 * time.Millisecond
	// maxBackOff is how long a Pod may be in restart back-off before it is replaced. In a kind cluster of the
	// sandbox, a back-off lasts one second; in other clusters, it can last minutes.
	maxBackOff = 4 * time.Second
)

// Options configures a Runner.
type Options struct {
	// Config is a client configuration with administrator permissions in the cluster. Required.
	Config *rest.Config
	// Log is the path of the log file for all controllers. Each line starts with the name of the Pod. Required for
	// Start.
	Log string
	// Env is the environment of the bases and the controllers. Required for Ensure.
	Env string
	// ClientIDPrefix is the prefix of the CLIENT_ID of each controller; see state.Dir.ClientIDPrefix. Default: no
	// prefix.
	ClientIDPrefix string
	// Owner is the value of the label cluster.SandboxLabel on the objects of this sandbox; see state.Dir.Label.
	// Required if Local is nil.
	Owner string
	// Broker returns the connection settings for the MQTT broker. Ensure calls it. Required for Ensure.
	Broker func() (Broker, error)
	// Local describes a cluster that the sandbox created. Default: nil, for an existing cluster. In an existing
	// cluster, the Runner changes only objects of this sandbox, the nodes pull Image, bases must use MQTT, and logs,
	// exec, kill and pause are not available.
	Local *LocalCluster
	// Image is the controller image of the Pods. Required if Local is nil. Otherwise, ImageName is used; see Load.
	Image string
	// OnChange is called for each state change of a controller, in order. It must not block or call methods of the
	// Runner. Required for Start.
	OnChange func(name string, state supervise.State, message string)
}

// LocalCluster describes a cluster whose nodes are containers on this machine. All fields are required.
type LocalCluster struct {
	Nodes cluster.Nodes
	// Proxy is the URL of the HTTP proxy through which controllers send commands to bases. It includes the password.
	Proxy string
	// KubeletClientCA is the path of the CA certificate that verifies the client certificate with which the API
	// server requests logs and exec.
	KubeletClientCA string
	// IssueServingCert issues a serving certificate for hosts.
	IssueServingCert func(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// Heartbeats is called when the address changes at which a controller receives HTTP heartbeats. addr is
	// host:port/token. It is empty if the controller does not receive HTTP heartbeats.
	Heartbeats func(controller, addr string)
}

// Runner runs module controllers in a cluster. Each controller has a Deployment with one Pod. Ensure and StopAll must
// not be called concurrently; all other methods may be called concurrently. Methods that block require Start to be
// running.
type Runner struct {
	o       Options
	client  kubernetes.Interface
	dynamic dynamic.Interface
	log     io.Writer // receives the log lines of all Pods; opened by Start
	kubelet Kubelet   // set once, because another certificate would restart the Pods
	token   string    // token that heartbeats must contain in their path
	// dial connects to a heartbeat address. Tests replace it.
	dial        func(ctx context.Context, addr string) error
	podsChanged chan struct{} // buffered; receives a value when a Pod has changed

	mu        sync.Mutex // guards the following fields
	pods      cache.Store
	wanted    int           // number of controllers
	stopped   map[int]bool  // which controllers are stopped, by number
	revision  string        // Settings.revision of the newest settings
	ports     map[int]int32 // NodePorts for heartbeats, by controller number
	marks     map[string]containerMark
	replicas  []Replica     // by controller number, from 1
	extraPods int           // number of Pods that do not belong to a replica
	change    chan struct{} // closed and replaced when the state changes
}

var _ supervise.ComponentSet = (*Runner)(nil)

// New returns a Runner without calling the cluster.
func New(o Options) (*Runner, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the cluster: %w", err)
	}
	dyn, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the cluster: %w", err)
	}
	return newRunner(o, client, dyn), nil
}

func newRunner(o Options, client kubernetes.Interface, dyn dynamic.Interface) *Runner {
	return &Runner{
		o: o, client: client, dynamic: dyn, dial: dial, token: rand.Text(), podsChanged: make(chan struct{}, 1),
		pods:    cache.NewStore(cache.MetaNamespaceKeyFunc),
		stopped: map[int]bool{}, ports: map[int]int32{}, marks: map[string]containerMark{}, change: make(chan struct{}),
	}
}

// Start watches the Pods of the controllers and copies their logs. It blocks until ctx ends, and then returns nil.
// Call Start once.
func (c *Runner) Start(ctx context.Context) error {
	if c.log == nil {
		log, err := os.OpenFile(c.o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("opening the log file of the controllers: %w", err)
		}
		defer func() { _ = log.Close() }() // all lines have been written
		c.log = log
	}
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
	// A shared informer calls its handlers some time after it has changed the store, so that intermediate states would
	// be missed.
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, c.client),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.refresh() }, UpdateFunc: func(any, any) { c.refresh() },
			DeleteFunc: func(any) { c.refresh() },
		},
	})
	c.mu.Lock()
	c.pods = store
	c.mu.Unlock()
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	goroutines.Go(func() { informer.RunWithContext(ctx) })
	logs := &logCopier{c: c, known: map[string]bool{}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.podsChanged:
		}
		logs.follow(ctx, &goroutines)
	}
}

// Ensure applies a controller configuration and blocks until all controllers are ready with this configuration. Start
// must be running.
func (c *Runner) Ensure(ctx context.Context, config v1alpha1.Controller) error {
	s, err := c.settings(config)
	if err != nil {
		return err
	}
	return runner.WithLog(c.ensure(ctx, s), c.o.Log)
}

func (c *Runner) settings(config v1alpha1.Controller) (Settings, error) {
	at, err := c.o.Broker()
	if err != nil {
		return Settings{}, err
	}
	s := Settings{Replicas: *config.Replicas, Env: c.o.Env, ClientIDPrefix: c.o.ClientIDPrefix, Image: c.o.Image,
		Variables: config.Env, Broker: at}
	if c.o.Local == nil {
		return s, nil
	}
	if err := c.issueKubeletCert(); err != nil {
		return Settings{}, err
	}
	s.Proxy, s.Token, s.Kubelet = c.o.Local.Proxy, c.token, c.kubelet
	return s, nil
}

// issueKubeletCert issues the serving certificate for logs and exec. It does nothing if the certificate was already
// issued.
func (c *Runner) issueKubeletCert() error {
	if c.kubelet.Cert != nil {
		return nil
	}
	clientCA, err := os.ReadFile(c.o.Local.KubeletClientCA)
	if err != nil {
		return fmt.Errorf("reading the CA certificate of the API server: %w", err)
	}
	c.kubelet.Cert, c.kubelet.Key, _, err = c.o.Local.IssueServingCert(runner.Name)
	if err != nil {
		return err
	}
	c.kubelet.ClientCA = clientCA
	return nil
}

// ensure applies the manifests and blocks until every Pod has the new settings, is ready, and receives heartbeats. If
// a Pod fails repeatedly, ensure returns an error without waiting for the end of ctx.
func (c *Runner) ensure(ctx context.Context, s Settings) error {
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
	if err := c.applyAll(ctx, objects); err != nil {
		return err
	}
	if err := c.removeDeployments(ctx, s.Replicas); err != nil {
		return err
	}
	if c.inExistingCluster() {
		return c.waitUntil(ctx, c.unmetCondition)
	}
	if err := c.applyHeartbeatServices(ctx, s.Replicas); err != nil {
		return err
	}
	if err := c.waitUntil(ctx, c.unmetCondition); err != nil {
		return err
	}
	return c.waitHeartbeats(ctx)
}

// applyAll applies all objects that do not belong to other owners. It checks the owners of all objects before it
// applies the first object.
func (c *Runner) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	var owned []*unstructured.Unstructured
	for _, object := range objects {
		cluster.SetOwner(object, c.o.Owner)
		other, err := c.belongsToOther(ctx, object)
		if err != nil {
			return err
		}
		if !other {
			owned = append(owned, object)
		}
	}
	for _, object := range owned {
		if _, err := c.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (c *Runner) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	api := cluster.ClientOf(c.dynamic, object)
	applied, err := api.Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

// applyHeartbeatServices creates a NodePort Service for each controller, at which the controller receives heartbeats.
func (c *Runner) applyHeartbeatServices(ctx context.Context, replicas int) error {
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
			return fmt.Errorf("decoding Service %s: %w", applied.GetName(), err)
		}
		ports[number] = service.Spec.Ports[0].NodePort
	}
	c.mu.Lock()
	c.ports = ports
	c.mu.Unlock()
	c.refresh()
	return nil
}

// Replicas returns the state of the controllers, in the order of their numbers.
func (c *Runner) Replicas() []Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.replicas)
}

// refresh derives the state of the controllers from their Pods and reports the changes.
func (c *Runner) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods := podsOf(c.pods)
	assigned := map[int]*corev1.Pod{}
	running := map[string]bool{}
	for _, p := range pods {
		running[statusOf(p).ContainerID] = true
		number, _ := strconv.Atoi(p.Labels[numberLabel])
		if number <= c.wanted && (assigned[number] == nil || !isTerminating(p)) {
			assigned[number] = p
		}
	}
	c.extraPods = len(pods) - len(assigned)
	maps.DeleteFunc(c.marks, func(id string, _ containerMark) bool { return !running[id] })
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
		for _, change := range diffReplicas(was, is) {
			c.report(change)
		}
	}
	close(c.change)
	c.change = make(chan struct{})
	select {
	case c.podsChanged <- struct{}{}:
	default: // already notified
	}
}

// report calls Options.OnChange for a change of a controller, and Heartbeats with the address of the controller.
func (c *Runner) report(change ReplicaChange) {
	name := runner.ComponentName(change.Number)
	if !c.inExistingCluster() {
		heartbeats := change.Heartbeats
		if heartbeats != "" {
			heartbeats += "/" + c.token
		}
		c.o.Local.Heartbeats(name, heartbeats)
	}
	c.o.OnChange(name, change.State, change.Message())
}

// selector returns a label selector for the Pods of the controllers.
func (c *Runner) selector() string {
	s := nameLabel + "=" + name + "," + numberLabel
	if c.o.Owner != "" {
		s += "," + cluster.SandboxLabel + "=" + c.o.Owner
	}
	return s
}

// podsOf returns the Pods in a store, oldest first.
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

// waitUntil blocks until missing returns an empty string or an error, or until ctx ends. missing returns a
// description of the unmet condition, or a fatal error. waitUntil calls it after every change, with c.mu locked. It
// also replaces Pods that are in restart back-off for too long.
func (c *Runner) waitUntil(ctx context.Context, missing func() (what string, fatal error)) error {
	for {
		c.mu.Lock()
		what, fatal := missing()
		change := c.change
		stuck := c.killedInBackOff()
		c.mu.Unlock()
		switch {
		case fatal != nil:
			return fatal
		case what == "":
			return nil
		}
		for _, pod := range stuck {
			if err := c.deletePod(ctx, pod, 0); err != nil {
				return err
			}
		}
		select {
		case <-change:
		case <-time.After(maxBackOff): // a back-off may have exceeded the limit
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// killedInBackOff returns the Pods whose container was killed and has been in restart back-off for longer than
// maxBackOff. Deleting such a Pod helps, because its replacement starts without a back-off.
func (c *Runner) killedInBackOff() (pods []string) {
	for _, r := range c.replicas {
		if r.inBackOff && r.killed && time.Since(r.endedAt) > maxBackOff {
			pods = append(pods, r.Pod)
		}
	}
	return pods
}

// unmetCondition returns a description of the first unmet condition. It returns an empty string when all controllers
// are ready with the newest settings and all other Pods have terminated.
func (c *Runner) unmetCondition() (what string, fatal error) {
	for _, r := range c.replicas {
		what, fatal = c.pendingReplica(r)
		if what != "" || fatal != nil {
			return what, fatal
		}
	}
	if c.extraPods > 0 {
		what = "Pods of an earlier configuration have not ended"
	}
	return what, nil
}

// pendingReplica returns a description of the condition that a controller does not meet yet. It returns an empty
// string when the controller is stopped, or ready with the newest settings.
func (c *Runner) pendingReplica(r Replica) (what string, fatal error) {
	switch {
	case r.stopped:
		return "", nil
	case r.Pod == "" || r.deleting || r.revision != c.revision:
		return fmt.Sprintf("%s has no Pod with its current configuration yet", runner.ComponentName(r.Number)), nil
	case r.inBackOff && !r.killed:
		return "", fmt.Errorf("%s keeps failing: Pod %s: %s", runner.ComponentName(r.Number), r.Pod, r.lastExit)
	case !r.Ready:
		return fmt.Sprintf("%s is not ready: Pod %s: %s", runner.ComponentName(r.Number), r.Pod, r.Reason), nil
	}
	return "", nil
}

// waitHeartbeats blocks until the heartbeat address of every running controller accepts connections.
func (c *Runner) waitHeartbeats(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, heartbeatTimeout, fmt.Errorf("timed out after %s", heartbeatTimeout))
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
				return fmt.Errorf(
					"heartbeats cannot reach Pod %s from this machine (%w: %w); run the controller on this "+
						"machine, with "+
						"--controller host", r.Pod, err, context.Cause(ctx))
			case <-time.After(heartbeatPoll):
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
