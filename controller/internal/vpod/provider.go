package vpod

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/configmap"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/probe"
	"github.com/koupleless/koupsandbox/controller/internal/work"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Options configure a Provider. A zero duration or number means its default.
type Options struct {
	// Workers is how many modules one base installs or uninstalls at once (VNODE_WORKER_NUM);
	// default 8.
	Workers int
	// InstallTimeout and UninstallTimeout are how long a base may take to answer; defaults 5 min
	// and 1 min.
	InstallTimeout, UninstallTimeout time.Duration
	// MaxAttempts is how often a module is installed in vain before RetryTimesExceeded is shown; it
	// is tried on all the same. Default 6.
	MaxAttempts int
	// KeepSameVersion leaves a module as it is when the image of its container changes and its
	// version does not. Otherwise it is uninstalled and installed again, with a gap.
	KeepSameVersion bool
	// Drain is how long the module of a Pod that was Ready stays installed after the Pod began to
	// be deleted, so that the Service has forgotten it; default 2 s, negative means none. While an
	// EndpointSlice has requests sent to it, it stays, as long as the Pod's grace period lets it.
	Drain time.Duration
	// Speed divides the periods that have no setting; the durations here are divided already.
	Speed pace.Speed
	// Recorder receives the Events of Pods. Required.
	Recorder record.EventRecorder
	// Failed says which superseded Pods turn Failed; empty means FailedUnowned.
	Failed FailedRule
	// Failure hears of every failed install and uninstall, for reports and metrics; it must not
	// block. Required.
	Failure func(pod *corev1.Pod, identity string, m arklet.Module, err error)
	// Asked hears of every command that goes to a base, Answered of what came of it; they must not
	// block. Required.
	Asked    func(identity string, r arklet.Request)
	Answered func(Outcome)
	// AddTolerationFor names the environment whose toleration a module Pod gets that is not
	// scheduled and tolerates no environment, and has Pods stay on unreachable Nodes; empty leaves
	// tolerations as they are.
	AddTolerationFor string
	// Unsettled is how long the endpoints of Services may be out of date at least, since the API
	// server is or was away; what is active is not uninstalled meanwhile. Nil: they never are.
	Unsettled func() time.Duration
	// Remembered hears that Ledger has something new to tell of a base; it must not block. Nil hears
	// nothing.
	Remembered func(identity string)
	// Keep returns when what Ledger tells of a base is kept where it outlives this controller, or
	// when ctx ends. Nil keeps nothing.
	Keep func(ctx context.Context, identity string)
	// Node finds a Node by its name; nil if there is none. Nil finds none.
	Node func(name string) *corev1.Node
	// ProbeDial connects to the web listeners of bases for probes. Nil dials their addresses directly.
	ProbeDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Workloads tell which Pods of a Deployment or DaemonSet are what it wants now. Nil: the Pod that
	// was created last is.
	Workloads appsinformers.Interface
	// Logger may be nil, which discards.
	Logger *slog.Logger
}

// Defaults of Options.
const (
	DefaultWorkers          = 8
	DefaultInstallTimeout   = api.InstallTimeout
	DefaultUninstallTimeout = api.UninstallTimeout
	DefaultMaxAttempts      = 6
	DefaultDrain            = api.Drain
)

// The longest pauses after errors that are no failure of a module: a base that gives no list, an API
// server that takes no write. A status must not be late for long once it can be written again.
const (
	operateAtMost = time.Minute
	publishAtMost = 2 * time.Second
)

// acceptAfter is how long an install may take before the Pod is written as accepted and waiting; a
// quicker one saves that write. It is acceptLater while other writes wait for their turn: what serves comes first.
const (
	acceptAfter = time.Second
	acceptLater = 10 * time.Second
)

// Provider serves the Pods of all bases of this controller. PodController calls it; the rest of the
// controller tells it of bases. Its methods may be called concurrently.
type Provider struct {
	opts      Options
	registry  *base.Registry
	dialog    *base.Dialog
	informer  *Informer
	store     *store
	writer    *writer
	gaps      gaps
	turns     turns
	rollouts  rollouts
	templates templates
	others    *strangers
	versions  *configmap.Resolver
	prober    *probe.Prober
	endpoints *endpoints
	// operators bring bases to what Pods want; publishers bring the status of Pods to what bases
	// say, whatever is under way there.
	operators, publishers *work.Queue[workerKey]
	slots                 *slots
	// chores are writes to Pods that no lane makes.
	chores *work.Queue[podKey]

	mu     sync.RWMutex
	nodes  map[string]string  // identity by the name of the Node, for those served
	served map[string]service // by identity
}

// service is a base that is served: what is done for it ends with ctx.
type service struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// New returns a provider. Nothing happens before Start.
func New(opts Options, client kubernetes.Interface, registry *base.Registry, dialog *base.Dialog) *Provider {
	opts.Workers = cmp.Or(opts.Workers, DefaultWorkers)
	opts.InstallTimeout = cmp.Or(opts.InstallTimeout, DefaultInstallTimeout)
	opts.UninstallTimeout = cmp.Or(opts.UninstallTimeout, DefaultUninstallTimeout)
	opts.MaxAttempts = cmp.Or(opts.MaxAttempts, DefaultMaxAttempts)
	opts.Drain = cmp.Or(opts.Drain, DefaultDrain)
	opts.Failed = cmp.Or(opts.Failed, FailedUnowned)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Remembered == nil {
		opts.Remembered = func(string) {}
	}
	if opts.Keep == nil {
		opts.Keep = func(context.Context, string) {}
	}
	if opts.Unsettled == nil {
		opts.Unsettled = func() time.Duration { return 0 }
	}
	if opts.Node == nil {
		opts.Node = func(string) *corev1.Node { return nil }
	}
	p := &Provider{
		opts:      opts,
		registry:  registry,
		dialog:    dialog,
		templates: newTemplates(opts.Workloads),
		nodes:     map[string]string{},
		served:    map[string]service{},
		gaps:      gaps{open: map[string]map[string]int{}},
		turns:     turns{speed: opts.Speed},
	}
	p.store = newStore(p.templates.outdated)
	p.informer = NewInformer(client, p.Serves)
	p.writer = &writer{client: client, pods: p.informer}
	p.others = newStrangers(p, client)
	p.prober = probe.New(probe.Options{Changed: p.probed, Dial: opts.ProbeDial})
	p.versions = configmap.New(configmap.Options{Client: client, Logger: opts.Logger, Changed: func(name types.NamespacedName) {
		for _, pod := range p.store.refersTo(name) {
			p.takeUp(pod)
		}
	}})
	p.slots = &slots{size: opts.Workers, call: func(key workerKey) { p.operators.Add(key) }, byBase: map[string]*baseSlots{}}
	p.operators = newQueue(opts, 0, operateAtMost, func(ctx context.Context, key workerKey) (time.Duration, error) {
		return p.slots.use(key, func() (time.Duration, error) { return p.reconcile(ctx, key) })
	})
	p.publishers = newQueue(opts, publishAtOnce, publishAtMost, p.publish)
	p.chores = newQueue(opts, choresAtOnce, publishAtMost, p.tend)
	p.endpoints = newEndpoints(client, opts, func(key workerKey) { p.operators.Add(key) })
	return p
}

// Informer is where PodController and others find the module Pods.
func (p *Provider) Informer() *Informer { return p.informer }

// Start works until ctx ends, and waits for what is under way.
func (p *Provider) Start(ctx context.Context) error {
	if err := p.informer.Observe(p.podChanged); err != nil {
		return err
	}
	if err := p.informer.watch(p.rollouts.handler()); err != nil {
		return err
	}
	if err := p.templates.watch(p.templateChanged); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, run := range []func(context.Context){p.operators.Run, p.publishers.Run, p.chores.Run, p.endpoints.lists.Run} {
		wg.Go(func() { run(ctx) })
	}
	wg.Go(func() { p.others.watch.RunWithContext(ctx) })
	wg.Go(func() { p.prober.Start(ctx) })
	wg.Go(func() { p.versions.Run(ctx) })
	return p.informer.Start(ctx)
}

// templateChanged has the lanes looked at in which a workload wants another Pod to serve than before.
func (p *Provider) templateChanged(workload string) {
	for _, key := range p.store.changed(workload) {
		p.trigger(key)
	}
}

// Serves says whether the Node of that name is served here.
func (p *Provider) Serves(nodeName string) bool {
	return p.Identity(nodeName) != ""
}

// Identity is the base behind a Node that is served here; empty if it is not.
func (p *Provider) Identity(nodeName string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.nodes[nodeName]
}

// Pod finds a module Pod that is served here, and its base.
func (p *Provider) Pod(namespace, name string) (*corev1.Pod, string, error) {
	pod, there := p.informer.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if !there {
		return nil, "", errdefs.NotFoundf("no module pod %s/%s", namespace, name)
	}
	identity := p.Identity(pod.Spec.NodeName)
	if identity == "" {
		return nil, "", errdefs.NotFoundf("the base of pod %s/%s is not served here", namespace, name)
	}
	return pod, identity, nil
}

// Asked returns the time at which this controller first saw a Pod on its base, and the versions of a module that
// the Pod has requested since then. kubectl logs shows these versions only. The list has at least one version.
func (p *Provider) Asked(pod *corev1.Pod, module string) (from time.Time, versions []string) {
	from = pod.CreationTimestamp.Time // for a Pod that has ended
	p.store.read(func() {
		if e := p.store.byUID[pod.UID]; e != nil {
			from, versions = e.came, slices.Clone(e.asked[module])
		}
	})
	for _, c := range pod.Spec.Containers {
		if c.Name == module && len(versions) == 0 {
			versions = append(versions, workload.Of(&pod.ObjectMeta, c).Version)
		}
	}
	return from, versions
}

// Serve begins to serve a base: its Pods are taken up, all at once. PodController would bring one
// after the other, and a worker that knows the new Pod and not the old one, or the old one alone,
// takes it for the one that is to serve. ledger is what Ledger returned when the base was served
// last, by whomever; empty if that is not known.
func (p *Provider) Serve(identity, nodeName, ledger string) {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	p.nodes[nodeName] = identity
	if before, known := p.served[identity]; known {
		before.cancel()
	}
	p.served[identity] = service{ctx, cancel}
	p.mu.Unlock()
	if err := p.store.restore(identity, ledger, time.Now().Add(p.opts.InstallTimeout+lateFor)); err != nil {
		p.opts.Logger.Warn("could not read what modules had put on a base; it keeps what no Pod wants", "base", identity, "err", err)
	}
	// Those whose deletion should have followed at once too: whoever asked for it may have died before
	// the API server was done, and then they stay until somebody asks again.
	pods := p.informer.On(nodeName)
	p.addPods(identity, pods...)
	p.informer.Deliver(nodeName)
	for _, pod := range pods {
		p.tolerate(pod)
	}
	for _, pod := range pods { // one that went meanwhile was not known yet
		if p.live(pod) == nil {
			p.beginDeletion(pod.UID)
		}
	}
	p.triggerAll(identity)
	p.others.served(nodeName)
}

// servedContext is one that ends when a base is not served any more, or with ctx. Call done in the
// end.
func (p *Provider) servedContext(ctx context.Context, identity string) (_ context.Context, done func(), served bool) {
	p.mu.RLock()
	s, served := p.served[identity]
	p.mu.RUnlock()
	if !served {
		return ctx, func() {}, false
	}
	serving, cancel := context.WithCancel(s.ctx) // it ends before Leave returns
	stop := context.AfterFunc(ctx, cancel)
	return serving, func() { stop(); cancel() }, true
}

// addPods takes Pods of a base up, and then has the workers of their modules look.
func (p *Provider) addPods(identity string, pods ...*corev1.Pod) {
	workers := map[workerKey]bool{}
	for _, pod := range pods {
		_, known := p.store.get(pod.UID)
		e, changed := p.store.put(pod, identity, modulesOf(pod, p.versions.Value))
		if len(changed) > 0 {
			p.reportInvalid(e)
		}
		for _, name := range changed {
			workers[workerKey{e.identity, name}] = true
		}
		if !known && pod.DeletionTimestamp != nil {
			p.beginDeletion(pod.UID)
		}
	}
	for key := range workers {
		p.trigger(key)
	}
}

// trigger has a lane looked at: by the operator, and by the publisher.
func (p *Provider) trigger(key workerKey) {
	p.supersede(key)
	p.operators.Add(key)
	p.publishers.Add(key)
}

// Leave ceases to serve a base, at once: what is under way is given up, its Pods are forgotten, its
// modules stay.
func (p *Provider) Leave(identity, nodeName string) {
	p.ceaseToServe(identity, nodeName)
	p.informer.Forget(nodeName)
	p.forgetBase(identity)
}

func (p *Provider) forgetBase(identity string) {
	modules := p.store.names(identity)
	for _, e := range p.store.removeBase(identity) {
		p.prober.Forget(e.uid, e.names()...)
	}
	for _, name := range modules {
		p.turns.leave(workerKey{identity, name})
	}
}

func (p *Provider) ceaseToServe(identity, nodeName string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, nodeName)
	if s, known := p.served[identity]; known {
		s.cancel()
		delete(p.served, identity)
	}
}

// removeAtOnce is how many Pods of one base that is gone are deleted at the same time.
const removeAtOnce = 4

// Remove takes the Pods of a base that is gone out of the API at once: Kubernetes itself would
// leave them Ready for 40 s and more. The error is that of the first that stays; the others go all the
// same.
func (p *Provider) Remove(ctx context.Context, identity, nodeName string) error {
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for _, pod := range p.informer.On(nodeName) {
		group.Go(func() error { return p.writer.delete(ctx, pod) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.ceaseToServe(identity, nodeName)
	p.forgetBase(identity)
	return nil
}

// BaseChanged takes a change of a base. It does not block.
func (p *Provider) BaseChanged(c base.Change) {
	switch c.Kind {
	case base.ModulesChanged:
		for _, name := range c.Names {
			if key := (workerKey{c.Identity, name}); p.store.has(key) {
				p.trigger(key)
			}
		}
	case base.Restarted:
		p.store.forgetFailures(c.Identity, func(plan.Failure) bool { return true })
		p.triggerAll(c.Identity)
	case base.HealthChanged:
		b, _ := p.registry.Get(c.Identity)
		if p.store.forgetFailures(c.Identity, func(f plan.Failure) bool { return f.FreeMetaspace >= 0 && freeMetaspace(b) > f.FreeMetaspace }) {
			p.triggerAll(c.Identity)
		}
	case base.LivenessChanged, base.InfoChanged:
		p.triggerAll(c.Identity)
	case base.Disappeared:
		p.mu.RLock()
		_, served := p.served[c.Identity]
		p.mu.RUnlock()
		if !served { // else it is removed, after its Pods
			p.forgetBase(c.Identity)
		}
	case base.Appeared: // the Node's business
	}
}

func (p *Provider) triggerAll(identity string) {
	for _, name := range p.store.names(identity) {
		p.trigger(workerKey{identity, name})
	}
}

// Requested returns the memory that the Pods on a Node request, in bytes, calculated like the scheduler: it
// includes init containers, Pod-level requests and overhead, and excludes Pods that have ended.
func (p *Provider) Requested(nodeName string) int64 {
	var total int64
	for _, pod := range slices.Concat(p.informer.On(nodeName), p.others.on(nodeName)) {
		if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
			total += requests.Memory().Value()
		}
	}
	return total
}

// Pods is the number of Pods served.
func (p *Provider) Pods() int { return p.store.count() }

// Depth is the number of lanes in which something is under way, or waits for a slot of its base.
func (p *Provider) Depth() int { return p.operators.Depth() + p.slots.waiting() }

// Unpublished is the number of lanes whose Pods are being written, or wait for that.
func (p *Provider) Unpublished() int { return p.publishers.Depth() }

// podChanged hears of every module Pod of the cluster. PodController finds a Pod by its name: one
// that was deleted and made anew under the same name it takes for an update, or for no change at
// all. So Pods are taken up and given up here, by their UID; what PodController says of them besides
// is the same once more.
func (p *Provider) podChanged(pod *corev1.Pod) {
	if p.live(pod) == nil {
		p.beginDeletion(pod.UID)
		return
	}
	e, known := p.store.get(pod.UID)
	foreign := known && e.shown(pod)
	p.tolerate(pod)
	if pod.DeletionTimestamp != nil {
		p.beginDeletion(pod.UID)
	} else {
		p.takeUp(pod)
	}
	if foreign {
		// The node lifecycle controller writes Pods Not Ready when it has not seen the Lease of their Node
		// renewed, and leaves it to the kubelet to take that back. kubectl debug waits for a word on the
		// container that it added.
		p.publishAnew(e)
	}
}

// publishAnew has the status of the Pods of a Pod's modules written again where it is not what the base
// says.
func (p *Provider) publishAnew(e *entry) {
	var names []string
	p.store.read(func() { names = e.names() })
	for _, name := range names {
		p.publishers.Add(workerKey{e.identity, name})
	}
}

// takeUp takes a Pod up, or what changed of it, if its Node is served here.
func (p *Provider) takeUp(pod *corev1.Pod) {
	if ended(pod) {
		return
	}
	if identity := p.Identity(pod.Spec.NodeName); identity != "" {
		p.addPods(identity, pod)
	}
}

// ended says that a Pod will never want anything again.
func ended(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// CreatePod implements node.PodLifecycleHandler. It takes up the Pod as the informer has it, for it is given
// no more than an outline.
func (p *Provider) CreatePod(_ context.Context, pod *corev1.Pod) error {
	if live := p.live(pod); live != nil {
		p.takeUp(live)
	}
	return nil
}

// UpdatePod implements node.PodLifecycleHandler. What changes of a Pod is heard of in podChanged.
func (p *Provider) UpdatePod(context.Context, *corev1.Pod) error { return nil }

// DeletePod implements node.PodLifecycleHandler. It returns at once; the Pod leaves the API when
// its modules are uninstalled.
func (p *Provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	if _, known := p.store.get(pod.UID); !known {
		live := p.live(pod)
		if live == nil {
			return errdefs.NotFoundf("pod %s is not served here", nameOf(pod))
		}
		p.takeUp(live) // deleted before this controller took it up: its modules may be there
	}
	p.beginDeletion(pod.UID)
	return nil
}

// live is a Pod as the informer has it; nil if that has none, or another one of that name.
func (p *Provider) live(pod *corev1.Pod) *corev1.Pod {
	if live, there := p.informer.Get(nameOf(pod)); there && live.UID == pod.UID {
		return live
	}
	return nil
}

func (p *Provider) beginDeletion(uid types.UID) {
	e, names, ok := p.store.markDeleting(uid)
	if !ok {
		return
	}
	for _, name := range names {
		p.trigger(workerKey{e.identity, name})
	}
}

// GetPod implements node.PodLifecycleHandler.
func (p *Provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	live, there := p.informer.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if there {
		if _, known := p.store.get(live.UID); known {
			return outline(live), nil
		}
	}
	return nil, errdefs.NotFoundf("pod %s/%s is not served here", namespace, name)
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p *Provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler. At the start, when PodController asks, none is
// served yet.
func (p *Provider) GetPods(context.Context) ([]*corev1.Pod, error) { return nil, nil }

// NotifyPods implements node.PodNotifier. The provider writes status itself, in an order that
// PodController's queue could not keep.
func (p *Provider) NotifyPods(context.Context, func(*corev1.Pod)) {}
