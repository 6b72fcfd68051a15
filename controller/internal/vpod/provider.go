// Package vpod installs the modules of Pods on bases, and writes the state of the modules to the status of the Pods.
// One Provider serves all bases of the process.
//
// A module slot is a module name on a base. Each slot has two workers. The operator plans one action from the Pods and
// the module list of the base, executes it, and requests the list again. The publisher writes the status of the Pods.
// It does not wait for commands. Both workers trust only the list, not the answers to commands.
//
// The package does not use the PodController of virtual-kubelet, which identifies a Pod by name, panics at an update of
// a Pod that it has not seen before (for example after a failover), and does not acknowledge status writes. A handover
// between Pods needs the acknowledgement of each write.
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

// Options configures a Provider. All fields are required, except fields with a default.
type Options struct {
	// Workers is the maximum number of concurrent commands of one base (VNODE_WORKER_NUM). Default: 8.
	Workers int
	// InstallTimeout and UninstallTimeout limit how long to wait for the answer to a command.
	InstallTimeout, UninstallTimeout time.Duration
	// MaxAttempts is the number of failed install attempts after which the Pod status shows RetryTimesExceeded.
	// Default: 6.
	MaxAttempts int
	// KeepSameVersion makes the controller ignore a new image of a container if the version stays the same. By
	// default, the controller uninstalls the module and installs it again from the new image.
	KeepSameVersion bool
	// Drain is how long the module of a Pod that was Ready stays installed after the deletion of the Pod has begun. The
	// module stays longer while an EndpointSlice lists the Pod as ready, but not longer than the grace period of the
	// Pod. A negative value disables the drain.
	Drain time.Duration
	// TimeScale divides the durations that have no option. The durations in Options are already divided.
	TimeScale pace.TimeScale
	Recorder  record.EventRecorder
	// FailedPods selects which superseded Pods get the phase Failed. Default: podstatus.FailedUnowned.
	FailedPods podstatus.FailedRule
	// ModuleFailed is called for invalid modules, and for failed installs and uninstalls: once when the error is new,
	// and again when the number of attempts reaches MaxAttempts. It must not block.
	ModuleFailed func(pod *corev1.Pod, identity string, m arklet.Module, err error)
	// CommandSent is called before a command is sent to a base. CommandFinished is called with the result, unless the
	// controller stops serving the base first. Both must not block.
	CommandSent     func(identity string, r arklet.Request)
	CommandFinished func(CommandResult)
	// AddTolerationFor is the environment whose toleration is added to module Pods. Unscheduled module Pods that
	// tolerate no environment get this toleration, and scheduled Pods tolerate unreachable Nodes without a time
	// limit. If AddTolerationFor is empty, tolerations are not changed.
	AddTolerationFor string
	// EndpointLag returns how long the endpoints of Services may still be out of date, because the API server was
	// unavailable; 0 means that the endpoints are up to date. Active versions are not uninstalled during that time.
	EndpointLag func() time.Duration
	// InstallRecordChanged is called when the result of InstallRecord has changed for a base. It must not block.
	InstallRecordChanged func(identity string)
	// SaveInstallRecord saves the install record of a base. It blocks until the record is saved or ctx is done.
	SaveInstallRecord func(ctx context.Context, identity string)
	// Node returns the Node with the given name; nil if it does not exist.
	Node func(name string) *corev1.Node
	// ProbeDial connects to the web listeners of bases for probes. Default: it dials their addresses directly.
	ProbeDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Workloads creates the informers of Deployments and DaemonSets. The caller starts the informers.
	Workloads appsinformers.Interface
	Logger    *slog.Logger
}

// Default values of Options.
const (
	defaultWorkers     = 8
	defaultMaxAttempts = 6
)

// The maximum retry delays after errors other than failed commands: the base does not send its module list, or the
// API server rejects a write.
const (
	maxOperateDelay = time.Minute
	maxPublishDelay = 2 * time.Second
)

// acceptDelay is how long an install may take before the Pod status shows that the Pod waits for it. If the install
// is faster, this status write is saved. While other status writes are queued, busyAcceptDelay applies instead.
const (
	acceptDelay     = time.Second
	busyAcceptDelay = 10 * time.Second
)

// Provider serves the Pods of all bases of this controller. Create it with New. Its methods may be called concurrently.
type Provider struct {
	opts       Options
	registry   *base.Registry
	requests   *base.RequestTracker
	informer   *Informer
	store      *store
	writer     *writer
	handovers  openHandovers
	rollouts   rollouts
	templates  templates
	unmanaged  podWatches // Pods that are on bases but lack the module label; see newUnmanagedWatch
	versions   *configmap.Resolver
	prober     *probe.Prober
	endpoints  *endpoints
	operators  *work.Queue[slotKey]
	publishers *work.Queue[slotKey]
	podWrites  *work.Queue[podKey] // queue of Pods for syncPod

	mu     sync.RWMutex
	nodes  map[string]string      // identities of the served bases by Node name
	served map[string]*servedBase // served bases by identity
}

// servedBase is the state of a base that this controller serves.
type servedBase struct {
	ctx      context.Context
	stop     context.CancelFunc
	commands *commandLimiter
}

// New returns a Provider. The Provider sends no commands before Start is called.
func New(opts Options, client kubernetes.Interface, registry *base.Registry, requests *base.RequestTracker) *Provider {
	opts.Workers = cmp.Or(opts.Workers, defaultWorkers)
	opts.MaxAttempts = cmp.Or(opts.MaxAttempts, defaultMaxAttempts)
	opts.FailedPods = cmp.Or(opts.FailedPods, podstatus.FailedUnowned)
	p := &Provider{
		opts: opts, registry: registry, requests: requests, informer: NewInformer(client),
		templates: newTemplates(opts.Workloads),
		nodes:     map[string]string{}, served: map[string]*servedBase{},
		handovers: openHandovers{counts: map[handoverKey]int{}},
		rollouts:  rollouts{counts: map[string]*rolloutCount{}},
	}
	p.store = newStore(p.templates.isOutdated)
	p.writer = &writer{client: client, pods: p.informer}
	p.unmanaged = p.newUnmanagedWatch(client)
	p.prober = probe.New(probe.Options{Changed: p.handleProbeResult, Dial: opts.ProbeDial})
	p.versions = configmap.New(
		configmap.Options{Client: client, Logger: opts.Logger, Changed: func(name types.NamespacedName) {
			for _, pod := range p.store.podsUsing(name) {
				p.addIfServed(pod)
			}
		}})
	p.operators = newQueue(opts, 0, opts.TimeScale.Of(maxOperateDelay), p.reconcile)
	p.publishers = newQueue(opts, maxConcurrentWrites, opts.TimeScale.Of(maxPublishDelay), p.publish)
	p.podWrites = newQueue(opts, maxPodWrites, opts.TimeScale.Of(maxPublishDelay), p.syncPod)
	p.endpoints = newEndpoints(client, opts, func(key slotKey) { p.operators.Add(key) })
	return p
}

// Informer returns the cache of the module Pods.
func (p *Provider) Informer() *Informer { return p.informer }

// Start serves Pods until ctx is done. It returns after the work in progress has ended.
func (p *Provider) Start(ctx context.Context) error {
	if err := p.informer.addHandler(p.rollouts.handler()); err != nil {
		return err
	}
	if err := p.informer.Observe(p.podChanged); err != nil {
		return err
	}
	if err := p.templates.registerHandlers(p.templateChanged); err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, run := range []func(context.Context){
		p.operators.Run, p.publishers.Run, p.podWrites.Run, p.endpoints.listQueue.Run, p.unmanaged.run, p.prober.Start,
		p.versions.Run, p.informer.run,
	} {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
	return nil
}

func (p *Provider) templateChanged(workload string) {
	for _, key := range p.store.updateOutdated(workload) {
		p.trigger(key)
	}
}

// Serves reports whether this controller serves the base of a Node.
func (p *Provider) Serves(nodeName string) bool {
	return p.Identity(nodeName) != ""
}

// Identity returns the identity of the base of a Node; empty if this controller does not serve the Node.
func (p *Provider) Identity(nodeName string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.nodes[nodeName]
}

// Pod returns a module Pod on a served Node, and the identity of the base.
func (p *Provider) Pod(namespace, name string) (*corev1.Pod, string, error) {
	pod, exists := p.informer.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if !exists {
		return nil, "", fmt.Errorf("module pod %s/%s not found", namespace, name)
	}
	identity := p.Identity(pod.Spec.NodeName)
	if identity == "" {
		return nil, "", fmt.Errorf("this controller does not serve the base of pod %s/%s", namespace, name)
	}
	return pod, identity, nil
}

// RequestedVersions returns the versions of a module that a Pod has requested since this controller first saw the Pod
// on its base, and the time of that first observation. kubectl logs shows only these versions. The list has at least
// one version.
func (p *Provider) RequestedVersions(pod *corev1.Pod, module string) (from time.Time, versions []string) {
	from = pod.CreationTimestamp.Time // the default for a Pod that is not served any more
	p.store.withReadLock(func() {
		if e := p.store.byUID[pod.UID]; e != nil {
			from, versions = e.firstSeen, slices.Clone(e.requestedVersions[module])
		}
	})
	for _, c := range pod.Spec.Containers {
		if c.Name == module && len(versions) == 0 {
			versions = append(versions, workload.ModuleOf(&pod.ObjectMeta, c).Version)
		}
	}
	return from, versions
}

// Serve starts serving a base. It adds all Pods before it triggers the workers: a worker that knows only some of the
// Pods could treat an older Pod as the newest one. installRecord is the last result of InstallRecord for the base,
// possibly from another controller; empty if there is none.
func (p *Provider) Serve(identity, nodeName, installRecord string) {
	s := &servedBase{commands: &commandLimiter{free: p.opts.Workers}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	p.mu.Lock()
	p.nodes[nodeName] = identity
	if before, known := p.served[identity]; known {
		before.stop()
	}
	p.served[identity] = s
	p.mu.Unlock()
	if err := p.store.restoreInstallRecord(identity, installRecord,
		time.Now().Add(p.opts.InstallTimeout+inDoubtFor)); err != nil {
		p.opts.Logger.Warn("could not read the install record; modules that no Pod requests stay on the base", "base",
			identity, "err", err)
	}
	// including Pods that were deleted without a grace period: that deletion may have failed
	pods := p.informer.PodsOnNode(nodeName)
	p.addPods(identity, pods...)
	for _, pod := range pods {
		p.ensureTolerations(pod)
		if p.cachedPod(pod) == nil { // deleted before it was added
			p.startDeletion(pod)
		}
	}
	p.triggerAll(identity)
	for _, pod := range p.unmanaged.find(indexNode, nodeName) {
		p.enqueueUnmanaged(pod)
	}
}

// servedBase returns the state of a served base; nil if this controller does not serve the base.
func (p *Provider) servedBase(identity string) *servedBase {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.served[identity]
}

// withContext returns a context that is cancelled when ctx is done, or when the controller stops serving the base,
// before StopServing returns. The caller must call finish when it no longer needs the context.
func (s *servedBase) withContext(ctx context.Context) (_ context.Context, finish func()) {
	serving, cancel := context.WithCancel(s.ctx)
	stop := context.AfterFunc(ctx, cancel)
	return serving, func() { stop(); cancel() }
}

// addPods adds or updates Pods of a base, and then triggers their module slots.
func (p *Provider) addPods(identity string, pods ...*corev1.Pod) {
	workers := map[slotKey]bool{}
	for _, pod := range pods {
		_, known := p.store.get(pod.UID)
		e, changed := p.store.putPod(pod, identity, modulesOf(pod, p.versions.Value))
		if len(changed) > 0 {
			p.reportInvalid(e)
		}
		if !known {
			p.reportIgnoredFields(pod)
		}
		for _, name := range changed {
			workers[slotKey{e.identity, name}] = true
		}
		// Also for a known Pod: Serve may have added it, from an older cache, since podChanged looked it up.
		if pod.DeletionTimestamp != nil {
			p.startDeletion(pod)
		}
	}
	for key := range workers {
		p.trigger(key)
	}
}

// reportIgnoredFields records an Event for a new Pod with fields that have no effect on a module. A Pod with a start
// time is skipped, because its fields were already reported.
func (p *Provider) reportIgnoredFields(pod *corev1.Pod) {
	if fields := unsupported.OfPod(pod); len(fields) > 0 && pod.Status.StartTime == nil {
		p.opts.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonUnsupported, unsupported.List(fields))
	}
}

// trigger adds a module slot to the queue of the operators and to the queue of the publishers.
func (p *Provider) trigger(key slotKey) {
	p.cancelUnwantedInstall(key)
	p.operators.Add(key)
	p.publishers.Add(key)
}

// StopServing stops serving a base. It cancels the work in progress, and removes the Pods of the base from memory.
// The modules stay installed.
func (p *Provider) StopServing(identity, nodeName string) {
	p.mu.Lock()
	delete(p.nodes, nodeName)
	if s, known := p.served[identity]; known {
		s.stop()
		delete(p.served, identity)
	}
	p.mu.Unlock()
	p.forgetBase(identity)
}

func (p *Provider) forgetBase(identity string) {
	for _, e := range p.store.removeBase(identity) {
		p.prober.Forget(e.uid, e.moduleNames()...)
	}
}

// maxConcurrentDeletes is the maximum number of Pods that DeletePods deletes concurrently.
const maxConcurrentDeletes = 4

// DeletePods deletes the Pods of a base that was removed, and stops serving the base. Without this deletion, the Pods
// would stay Ready for at least 40 s. DeletePods tries to delete all Pods, and returns the first error.
func (p *Provider) DeletePods(ctx context.Context, identity, nodeName string) error {
	var group errgroup.Group
	group.SetLimit(maxConcurrentDeletes)
	for _, pod := range p.informer.PodsOnNode(nodeName) {
		group.Go(func() error { return p.writer.delete(ctx, pod) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.StopServing(identity, nodeName)
	return nil
}

// BaseChanged handles a change of a base. It does not block.
func (p *Provider) BaseChanged(c base.Change) {
	switch c.Kind {
	case base.ModulesChanged:
		for _, name := range c.Names {
			if key := (slotKey{c.Identity, name}); p.store.hasSlot(key) {
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
		if p.servedBase(c.Identity) == nil { // otherwise DeletePods is called
			p.forgetBase(c.Identity)
		}
	case base.Appeared: // Serve is called
	}
}

func (p *Provider) triggerAll(identity string) {
	for _, name := range p.store.moduleNames(identity) {
		p.trigger(slotKey{identity, name})
	}
}

// RequestedMemory returns the memory that the Pods on a Node request, in bytes. Like the scheduler, it includes init
// containers, Pod-level requests and overhead, and excludes Pods that have Failed or Succeeded.
func (p *Provider) RequestedMemory(nodeName string) int64 {
	var total int64
	for _, pod := range slices.Concat(p.informer.PodsOnNode(nodeName), p.unmanaged.find(indexNode, nodeName)) {
		if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
			total += requests.Memory().Value()
		}
	}
	return total
}

// PodCount returns the number of Pods that this controller serves.
func (p *Provider) PodCount() int { return p.store.count() }

// Depth returns the number of module slots whose operator is running or queued, or that wait for the command limit.
func (p *Provider) Depth() int {
	n := p.operators.Pending()
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, s := range p.served {
		n += s.commands.countWaiting()
	}
	return n
}

// Unpublished returns the number of module slots whose publisher is running or queued.
func (p *Provider) Unpublished() int { return p.publishers.Pending() }

// podChanged handles an event of a module Pod on any Node.
func (p *Provider) podChanged(pod *corev1.Pod) {
	if p.cachedPod(pod) == nil {
		p.startDeletion(pod)
		return
	}
	e, known := p.store.get(pod.UID)
	foreign := known && e.lastWrite.observe(pod)
	p.ensureTolerations(pod)
	switch {
	case deletedWithoutGrace(pod): // the event of its deletion follows
	case pod.DeletionTimestamp != nil && known:
		p.startDeletion(pod)
	default:
		p.addIfServed(pod)
	}
	if foreign {
		// The node lifecycle controller marks Pods Not Ready if the Lease of their Node was not renewed, and relies on
		// the kubelet to correct that. kubectl debug waits for the status of the container that it has added.
		p.republish(e)
	}
}

// republish queues the publishers of all module slots of a Pod.
func (p *Provider) republish(e *podRecord) {
	var names []string
	p.store.withReadLock(func() { names = e.moduleNames() })
	for _, name := range names {
		p.publishers.Add(slotKey{e.identity, name})
	}
}

// addIfServed adds or updates a Pod if this controller serves its Node and the phase of the Pod is not Succeeded.
func (p *Provider) addIfServed(pod *corev1.Pod) {
	if identity := p.Identity(pod.Spec.NodeName); identity != "" && pod.Status.Phase != corev1.PodSucceeded {
		p.addPods(identity, pod)
	}
}

// deletedWithoutGrace reports whether a Pod was deleted without a grace period and without finalizers.
func deletedWithoutGrace(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0 && len(pod.Finalizers) == 0
}

// cachedPod returns the Pod from the informer cache; nil if the cache does not contain the Pod, or contains another
// Pod with the same name.
func (p *Provider) cachedPod(pod *corev1.Pod) *corev1.Pod {
	if live, exists := p.informer.Get(nameOf(pod)); exists && live.UID == pod.UID {
		return live
	}
	return nil
}

// startDeletion starts uninstalling the modules of a Pod. The Pod is deleted from the API when its modules are
// uninstalled, or at the end of its grace period.
func (p *Provider) startDeletion(pod *corev1.Pod) {
	e, names, ok := p.store.markDeleting(pod.UID)
	if !ok {
		return
	}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		p.podWrites.AddAfter(podKey(nameOf(pod)), time.Duration(*grace)*time.Second)
	}
	for _, name := range names {
		p.trigger(slotKey{e.identity, name})
	}
}
