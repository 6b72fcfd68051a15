// Package vpod installs the modules of Pods on bases, and writes the state of the modules to the status of the Pods. One
// Provider does it for all bases of the process.
//
// A lane is a module name on a base. Each lane has two workers. The operator plans one step from the Pods and the list of
// the base, carries it out, and requests the list again. The publisher writes the status of the Pods. It does not wait for
// commands. Both rely only on the list, not on the answers to commands.
package vpod

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/configmap"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/probe"
	"github.com/koupleless/koupsandbox/controller/internal/work"
	"github.com/koupleless/koupsandbox/controller/unsupported"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Options configure a Provider. All are required, except those with a default.
type Options struct {
	// Workers is the maximum number of concurrent commands of one base (VNODE_WORKER_NUM). Default: 8.
	Workers int
	// InstallTimeout and UninstallTimeout are how long a base may take to answer.
	InstallTimeout, UninstallTimeout time.Duration
	// MaxAttempts is after how many failed installs RetryTimesExceeded is shown. The attempts continue. Default: 6.
	MaxAttempts int
	// KeepSameVersion ignores a new image of a container without a new version. Otherwise the module is uninstalled and
	// installed again.
	KeepSameVersion bool
	// Drain is how long the module of a Pod that was Ready stays installed after the deletion of the Pod has begun. It stays
	// longer while an EndpointSlice shows that requests are sent to the Pod, but not longer than the grace period of the
	// Pod. Negative means no drain.
	Drain time.Duration
	// Speed divides the periods that have no setting. The durations in Options are already divided.
	Speed    pace.Speed
	Recorder record.EventRecorder
	// Failed are the superseded Pods that turn Failed. Default: podstatus.FailedUnowned.
	Failed podstatus.FailedRule
	// Failure is called for every failed install and uninstall. It must not block.
	Failure func(pod *corev1.Pod, identity string, m arklet.Module, err error)
	// Asked is called for every command that is sent to a base, Answered for its result. They must not block.
	Asked    func(identity string, r arklet.Request)
	Answered func(Outcome)
	// AddTolerationFor is the environment whose toleration unscheduled module Pods get that tolerate no environment. Pods
	// also stay on unreachable Nodes. Empty: tolerations are not changed.
	AddTolerationFor string
	// EndpointLag returns how long the endpoints of Services may be out of date at least, because the API server was
	// unavailable. Active versions are not uninstalled during that time.
	EndpointLag func() time.Duration
	// LedgerChanged is called when Ledger returns something new for a base. It must not block.
	LedgerChanged func(identity string)
	// Keep stores the ledger of a base. It returns when it is stored, or when ctx is done.
	Keep func(ctx context.Context, identity string)
	// Node returns a Node; nil if it does not exist.
	Node func(name string) *corev1.Node
	// ProbeDial connects to the web listeners of bases for probes. Default: it dials their addresses directly.
	ProbeDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Workloads has the Deployments and DaemonSets. The caller starts the informers.
	Workloads appsinformers.Interface
	Logger    *slog.Logger
}

// Defaults of the settings of the controller.
const (
	defaultWorkers     = 8
	defaultMaxAttempts = 6
)

// The longest delays after errors that are not failures of a module: the base sends no list, or the API server refuses a
// write.
const (
	operateAtMost = time.Minute
	publishAtMost = 2 * time.Second
)

// acceptAfter is how long an install may take before the status shows that the Pod waits for it. A quicker install saves
// that write. While other writes wait, the time is acceptLater.
const (
	acceptAfter = time.Second
	acceptLater = 10 * time.Second
)

// Provider serves the Pods of all bases of this controller. Its methods may be called concurrently.
type Provider struct {
	opts       Options
	registry   *base.Registry
	requests   *base.RequestTracker
	informer   *Informer
	store      *store
	writer     *writer
	gaps       gaps
	rollouts   rollouts
	templates  templates
	unmanaged  podWatches // see watchUnmanaged
	versions   *configmap.Resolver
	prober     *probe.Prober
	endpoints  *endpoints
	operators  *work.Queue[workerKey]
	publishers *work.Queue[workerKey]
	chores     *work.Queue[podKey] // see tend

	mu     sync.RWMutex
	nodes  map[string]string   // identity by the name of the Node, for the served bases
	served map[string]*service // by identity
}

// service is a base that is served.
type service struct {
	ending context.Context
	end    context.CancelFunc
	slots  *slots
}

// New returns a Provider. It does nothing before Start.
func New(opts Options, client kubernetes.Interface, registry *base.Registry, requests *base.RequestTracker) *Provider {
	opts.Workers = cmp.Or(opts.Workers, defaultWorkers)
	opts.MaxAttempts = cmp.Or(opts.MaxAttempts, defaultMaxAttempts)
	opts.Failed = cmp.Or(opts.Failed, podstatus.FailedUnowned)
	p := &Provider{
		opts: opts, registry: registry, requests: requests, informer: NewInformer(client),
		templates: newTemplates(opts.Workloads),
		nodes:     map[string]string{}, served: map[string]*service{}, gaps: gaps{open: map[gap]int{}},
		rollouts: rollouts{counts: map[string]*rolloutCount{}},
	}
	p.store = newStore(p.templates.outdated)
	p.writer = &writer{client: client, pods: p.informer}
	p.unmanaged = p.watchUnmanaged(client)
	p.prober = probe.New(probe.Options{Changed: p.probed, Dial: opts.ProbeDial})
	p.versions = configmap.New(
		configmap.Options{Client: client, Logger: opts.Logger, Changed: func(name types.NamespacedName) {
			for _, pod := range p.store.refersTo(name) {
				p.takeUp(pod)
			}
		}})
	p.operators = newQueue(opts, 0, opts.Speed.Of(operateAtMost), p.reconcile)
	p.publishers = newQueue(opts, publishAtOnce, opts.Speed.Of(publishAtMost), p.publish)
	p.chores = newQueue(opts, choresAtOnce, opts.Speed.Of(publishAtMost), p.tend)
	p.endpoints = newEndpoints(client, opts, func(key workerKey) { p.operators.Add(key) })
	return p
}

// Informer returns the cache of the module Pods.
func (p *Provider) Informer() *Informer { return p.informer }

// Start serves Pods until ctx is done, and waits for the work in progress.
func (p *Provider) Start(ctx context.Context) error {
	if err := p.informer.watch(p.rollouts.handler()); err != nil {
		return err
	}
	if err := p.informer.Observe(p.podChanged); err != nil {
		return err
	}
	if err := p.templates.watch(p.templateChanged); err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, run := range []func(context.Context){
		p.operators.Run, p.publishers.Run, p.chores.Run, p.endpoints.lists.Run, p.unmanaged.run, p.prober.Start,
		p.versions.Run, p.informer.run,
	} {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
	return nil
}

func (p *Provider) templateChanged(workload string) {
	for _, key := range p.store.changed(workload) {
		p.trigger(key)
	}
}

// Serves reports whether this controller serves a Node.
func (p *Provider) Serves(nodeName string) bool {
	return p.Identity(nodeName) != ""
}

// Identity returns the identity of the base of a Node; empty if this controller does not serve the Node.
func (p *Provider) Identity(nodeName string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.nodes[nodeName]
}

// Pod returns a module Pod of a served Node, and the identity of its base.
func (p *Provider) Pod(namespace, name string) (*corev1.Pod, string, error) {
	pod, there := p.informer.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if !there {
		return nil, "", fmt.Errorf("no module pod %s/%s", namespace, name)
	}
	identity := p.Identity(pod.Spec.NodeName)
	if identity == "" {
		return nil, "", fmt.Errorf("the base of pod %s/%s is not served here", namespace, name)
	}
	return pod, identity, nil
}

// RequestedVersions returns the time at which this controller first saw a Pod on its base, and the versions of a module that
// the Pod has requested since then. kubectl logs shows these versions only. The list has at least one version.
func (p *Provider) RequestedVersions(pod *corev1.Pod, module string) (from time.Time, versions []string) {
	from = pod.CreationTimestamp.Time // for a Pod that has ended
	p.store.read(func() {
		if e := p.store.byUID[pod.UID]; e != nil {
			from, versions = e.came, slices.Clone(e.asked[module])
		}
	})
	for _, c := range pod.Spec.Containers {
		if c.Name == module && len(versions) == 0 {
			versions = append(versions, workload.ModuleOf(&pod.ObjectMeta, c).Version)
		}
	}
	return from, versions
}

// Serve begins to serve a base. It adds all Pods before a worker plans: a worker that knows only some of the Pods would take
// the wrong one for the newest. ledger is the last result of Ledger for the base, also of another controller; empty if it is
// not known.
func (p *Provider) Serve(identity, nodeName, ledger string) {
	s := &service{slots: &slots{free: p.opts.Workers}}
	s.ending, s.end = context.WithCancel(context.Background())
	p.mu.Lock()
	p.nodes[nodeName] = identity
	if before, known := p.served[identity]; known {
		before.end()
	}
	p.served[identity] = s
	p.mu.Unlock()
	if err := p.store.restore(identity, ledger, time.Now().Add(p.opts.InstallTimeout+lateFor)); err != nil {
		p.opts.Logger.Warn("could not read the modules that were installed for Pods; the base keeps those that "+
			"no Pod requests", "base", identity, "err", err)
	}
	// also those that were deleted without a grace period: that deletion may have failed
	pods := p.informer.On(nodeName)
	p.addPods(identity, pods...)
	for _, pod := range pods {
		p.tolerate(pod)
		if p.live(pod) == nil { // deleted before it was added
			p.beginDeletion(pod)
		}
	}
	p.triggerAll(identity)
	for _, pod := range p.unmanaged.find(indexNode, nodeName) {
		p.unmanagedChanged(pod)
	}
}

// service returns what is known of a served base; nil if this controller does not serve it.
func (p *Provider) service(identity string) *service {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.served[identity]
}

// context returns a context that is done when the base is not served any more, before Leave returns, or when ctx is done. The
// caller must call done.
func (s *service) context(ctx context.Context) (_ context.Context, done func()) {
	serving, cancel := context.WithCancel(s.ending)
	stop := context.AfterFunc(ctx, cancel)
	return serving, func() { stop(); cancel() }
}

// addPods adds or updates Pods of a base, and then triggers their lanes.
func (p *Provider) addPods(identity string, pods ...*corev1.Pod) {
	workers := map[workerKey]bool{}
	for _, pod := range pods {
		_, known := p.store.get(pod.UID)
		e, changed := p.store.put(pod, identity, modulesOf(pod, p.versions.Value))
		if len(changed) > 0 {
			p.reportInvalid(e)
		}
		if !known {
			p.reportIgnored(pod)
		}
		for _, name := range changed {
			workers[workerKey{e.identity, name}] = true
		}
		if !known && pod.DeletionTimestamp != nil {
			p.beginDeletion(pod)
		}
	}
	for key := range workers {
		p.trigger(key)
	}
}

// reportIgnored records an Event for a new Pod with fields that have no effect on a module. A Pod with a start time was
// reported by the controller that has set it.
func (p *Provider) reportIgnored(pod *corev1.Pod) {
	if fields := unsupported.OfPod(pod); len(fields) > 0 && pod.Status.StartTime == nil {
		p.opts.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonUnsupported, unsupported.List(fields))
	}
}

// trigger adds a lane to the queues of the operators and the publishers.
func (p *Provider) trigger(key workerKey) {
	p.supersede(key)
	p.operators.Add(key)
	p.publishers.Add(key)
}

// Leave stops serving a base. It cancels the work in progress and forgets the Pods. The modules stay installed.
func (p *Provider) Leave(identity, nodeName string) {
	p.mu.Lock()
	delete(p.nodes, nodeName)
	if s, known := p.served[identity]; known {
		s.end()
		delete(p.served, identity)
	}
	p.mu.Unlock()
	p.forgetBase(identity)
}

func (p *Provider) forgetBase(identity string) {
	for _, e := range p.store.removeBase(identity) {
		p.prober.Forget(e.uid, e.names()...)
	}
}

// removeAtOnce is the maximum number of concurrent deletions of Remove.
const removeAtOnce = 4

// Remove deletes the Pods of a base that does not exist any more from the API: Kubernetes itself would leave them Ready for
// 40 s and more. It tries to delete all of them, and returns the first error.
func (p *Provider) Remove(ctx context.Context, identity, nodeName string) error {
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for _, pod := range p.informer.On(nodeName) {
		group.Go(func() error { return p.writer.delete(ctx, pod) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.Leave(identity, nodeName)
	return nil
}

// BaseChanged handles a change of a base. It does not block.
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
		if p.store.forgetFailures(c.Identity,
			func(f plan.Failure) bool { return f.FreeMetaspace >= 0 && freeMetaspace(b) > f.FreeMetaspace }) {
			p.triggerAll(c.Identity)
		}
	case base.LivenessChanged, base.InfoChanged:
		p.triggerAll(c.Identity)
	case base.Disappeared:
		if p.service(c.Identity) == nil { // otherwise Remove is called
			p.forgetBase(c.Identity)
		}
	case base.Appeared: // Serve is called
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
	for _, pod := range slices.Concat(p.informer.On(nodeName), p.unmanaged.find(indexNode, nodeName)) {
		if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
			total += requests.Memory().Value()
		}
	}
	return total
}

// Pods returns the number of served Pods.
func (p *Provider) Pods() int { return p.store.count() }

// Depth returns the number of lanes that the operators work on, or that wait for a slot of their base.
func (p *Provider) Depth() int {
	n := p.operators.Depth()
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, s := range p.served {
		n += s.slots.countWaiting()
	}
	return n
}

// Unpublished returns the number of lanes whose Pods are being written or wait for a write.
func (p *Provider) Unpublished() int { return p.publishers.Depth() }

// podChanged handles an event of a module Pod on any Node.
func (p *Provider) podChanged(pod *corev1.Pod) {
	if p.live(pod) == nil {
		p.beginDeletion(pod)
		return
	}
	e, known := p.store.get(pod.UID)
	foreign := known && e.written.shown(pod)
	p.tolerate(pod)
	switch {
	case deletedNow(pod): // the event of its deletion follows
	case pod.DeletionTimestamp != nil && known:
		p.beginDeletion(pod)
	default:
		p.takeUp(pod)
	}
	if foreign {
		// The node lifecycle controller writes Pods Not Ready if the Lease of their Node was not renewed, and relies on
		// the kubelet to correct that. kubectl debug waits for the status of the container that it has added.
		p.publishAgain(e)
	}
}

// publishAgain triggers the publishers of all lanes of a Pod.
func (p *Provider) publishAgain(e *podRecord) {
	var names []string
	p.store.read(func() { names = e.names() })
	for _, name := range names {
		p.publishers.Add(workerKey{e.identity, name})
	}
}

// takeUp adds or updates a Pod if its Node is served.
func (p *Provider) takeUp(pod *corev1.Pod) {
	if identity := p.Identity(pod.Spec.NodeName); identity != "" && pod.Status.Phase != corev1.PodSucceeded {
		p.addPods(identity, pod)
	}
}

// deletedNow reports whether a Pod was deleted without a grace period and without finalizers.
func deletedNow(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0 && len(pod.Finalizers) == 0
}

// live returns the Pod in the cache; nil if it is not there, or another Pod has its name.
func (p *Provider) live(pod *corev1.Pod) *corev1.Pod {
	if live, there := p.informer.Get(nameOf(pod)); there && live.UID == pod.UID {
		return live
	}
	return nil
}

// beginDeletion uninstalls the modules of a Pod. The Pod is deleted from the API when they are uninstalled, or at the end of
// its grace period.
func (p *Provider) beginDeletion(pod *corev1.Pod) {
	e, names, ok := p.store.markDeleting(pod.UID)
	if !ok {
		return
	}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		p.chores.AddAfter(podKey(nameOf(pod)), time.Duration(*grace)*time.Second)
	}
	for _, name := range names {
		p.trigger(workerKey{e.identity, name})
	}
}
