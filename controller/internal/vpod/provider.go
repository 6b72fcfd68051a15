package vpod

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
)

// Options configure a Provider. A zero duration or number means its default.
type Options struct {
	// Workers is how many modules one base installs or uninstalls at once (VNODE_WORKER_NUM);
	// default 8.
	Workers int
	// InstallTimeout and UninstallTimeout are how long a base may take to answer; defaults 5 min
	// and 1 min.
	InstallTimeout, UninstallTimeout time.Duration
	// MaxAttempts is how often a module is installed in vain before RetryTimesExceeded; default 6.
	MaxAttempts int
	// Drain is how long the module of a Pod that was Ready stays installed after the Pod began to
	// be deleted, so that the Service has forgotten it; default 2 s, negative means none.
	Drain time.Duration
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
	// scheduled and tolerates no environment; empty adds none.
	AddTolerationFor string
	// Logger may be nil, which discards.
	Logger *slog.Logger
}

// Defaults of Options.
const (
	DefaultWorkers          = 8
	DefaultInstallTimeout   = 5 * time.Minute
	DefaultUninstallTimeout = time.Minute
	DefaultMaxAttempts      = 6
	DefaultDrain            = 2 * time.Second
)

// acceptAfter is how long an install may take before the Pod is written as accepted and waiting; a
// quicker one saves that write.
const acceptAfter = time.Second

// Provider serves the Pods of all bases of this controller. PodController calls it; the rest of the
// controller tells it of bases. Its methods may be called concurrently.
type Provider struct {
	opts     Options
	registry *base.Registry
	dialog   *base.Dialog
	informer *Informer
	store    *store
	writer   *writer
	workers  *workers
	gaps     gaps
	rollouts rollouts

	mu    sync.RWMutex
	nodes map[string]string // identity by the name of the Node, for those served
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
	p := &Provider{
		opts:     opts,
		registry: registry,
		dialog:   dialog,
		store:    newStore(),
		nodes:    map[string]string{},
		gaps:     gaps{open: map[string]map[string]int{}},
	}
	p.informer = NewInformer(client, p.Serves)
	p.writer = &writer{client: client, pods: p.informer}
	p.workers = &workers{
		reconcile: p.reconcile,
		logger:    opts.Logger,
		slots:     &slots{size: opts.Workers, byBase: map[string]*baseSlots{}},
		byKey:     map[workerKey]*worker{},
	}
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
	p.workers.start(ctx)
	defer p.workers.stop()
	return p.informer.Start(ctx)
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

// Serve begins to serve a base: its Pods are taken up, all at once. PodController would bring one
// after the other, and a worker that knows the new Pod and not the old one, or the old one alone,
// takes it for the one that is to serve.
func (p *Provider) Serve(identity, nodeName string) {
	p.mu.Lock()
	p.nodes[nodeName] = identity
	p.mu.Unlock()
	pods := slices.DeleteFunc(p.informer.On(nodeName), leaving)
	p.addPods(identity, pods...)
	p.informer.Deliver(nodeName)
	for _, pod := range pods { // one that went meanwhile was not known yet
		if live, there := p.informer.Get(nameOf(pod)); !there || live.UID != pod.UID {
			p.beginDeletion(pod.UID)
		}
	}
}

// addPods takes Pods of a base up, and then has the workers of their modules look.
func (p *Provider) addPods(identity string, pods ...*corev1.Pod) {
	workers := map[workerKey]bool{}
	for _, pod := range pods {
		e, names := p.store.put(pod, identity)
		for _, name := range names {
			workers[workerKey{identity, name}] = true
		}
		time.AfterFunc(acceptAfter, func() {
			p.workers.background(func(ctx context.Context) { p.writeAccepted(ctx, e) })
		})
	}
	for key := range workers {
		p.workers.trigger(key)
	}
}

// Leave ceases to serve a base: its Pods are forgotten, its modules stay.
func (p *Provider) Leave(identity, nodeName string) {
	p.mu.Lock()
	delete(p.nodes, nodeName)
	p.mu.Unlock()
	p.informer.Forget(nodeName)
	p.store.removeBase(identity)
}

// Remove takes the Pods of a base that is gone out of the API at once: Kubernetes itself would
// leave them Ready for 40 s and more.
func (p *Provider) Remove(ctx context.Context, identity, nodeName string) error {
	var errs []error
	for _, pod := range p.informer.On(nodeName) {
		errs = append(errs, p.writer.delete(ctx, pod))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.store.removeBase(identity)
	return nil
}

// BaseChanged takes a change of a base. It does not block.
func (p *Provider) BaseChanged(c base.Change) {
	switch c.Kind {
	case base.ModulesChanged:
		for _, name := range c.Names {
			if key := (workerKey{c.Identity, name}); len(p.store.views(key)) > 0 {
				p.workers.trigger(key)
			}
		}
	case base.Restarted:
		p.store.change(func() {
			for _, e := range p.store.byBase[c.Identity] {
				e.failures = map[string]failure{}
			}
		})
		p.triggerAll(c.Identity)
	case base.LivenessChanged, base.InfoChanged:
		p.triggerAll(c.Identity)
	case base.Appeared, base.HealthChanged, base.Disappeared: // the Node's business
	}
}

func (p *Provider) triggerAll(identity string) {
	for _, name := range p.store.names(identity) {
		p.workers.trigger(workerKey{identity, name})
	}
}

// Requested is the memory that the Pods on a Node request, in bytes.
func (p *Provider) Requested(nodeName string) int64 {
	var total int64
	for _, pod := range p.informer.On(nodeName) {
		for _, c := range pod.Spec.Containers {
			total += c.Resources.Requests.Memory().Value()
		}
	}
	return total
}

// Pods is the number of Pods served.
func (p *Provider) Pods() int { return p.store.count() }

// Depth is the number of workers that run or wait for a turn.
func (p *Provider) Depth() int { return p.workers.depth() }

// podChanged hears of every module Pod of the cluster. PodController finds a Pod by its name: one
// that was deleted and made anew under the same name it would take for an update, so the old one is
// marked here.
func (p *Provider) podChanged(pod *corev1.Pod) {
	if live, there := p.informer.Get(nameOf(pod)); there && live.UID == pod.UID {
		if e, known := p.store.get(pod.UID); known {
			e.shown(pod)
		}
		if needsToleration(pod) && p.opts.AddTolerationFor != "" {
			p.workers.background(func(ctx context.Context) { p.tolerate(ctx, pod) })
		}
		return
	}
	p.beginDeletion(pod.UID)
}

// CreatePod implements node.PodLifecycleHandler.
func (p *Provider) CreatePod(_ context.Context, pod *corev1.Pod) error {
	if identity := p.Identity(pod.Spec.NodeName); identity != "" { // else it is not ours any more
		p.addPods(identity, pod)
	}
	return nil
}

// UpdatePod implements node.PodLifecycleHandler.
func (p *Provider) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	e, known := p.store.get(pod.UID)
	if !known {
		return p.CreatePod(ctx, pod)
	}
	_, names := p.store.put(pod, e.identity)
	for _, name := range names {
		p.workers.trigger(workerKey{e.identity, name})
	}
	return nil
}

// DeletePod implements node.PodLifecycleHandler. It returns at once; the Pod leaves the API when
// its modules are uninstalled.
func (p *Provider) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	if _, known := p.store.get(pod.UID); !known {
		if _, there := p.informer.Get(nameOf(pod)); !there {
			return errdefs.NotFoundf("pod %s is not served here", nameOf(pod))
		}
		// Deleted before this controller took it up: its modules may be there.
		if err := p.CreatePod(ctx, pod); err != nil {
			return err
		}
	}
	p.beginDeletion(pod.UID)
	return nil
}

func (p *Provider) beginDeletion(uid types.UID) {
	e, names, ok := p.store.markDeleting(uid)
	if !ok {
		return
	}
	if len(names) == 0 { // none of its modules could ever be installed: there is nothing to wait for
		p.workers.background(func(ctx context.Context) {
			if err := p.finishPod(ctx, e); err != nil && ctx.Err() == nil {
				p.opts.Logger.Warn("could not take a pod without modules out of the API; its grace period does", "base", e.identity, "err", err)
			}
		})
	}
	for _, name := range names {
		p.workers.trigger(workerKey{e.identity, name})
	}
}

// GetPod implements node.PodLifecycleHandler.
func (p *Provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := p.store.find(types.NamespacedName{Namespace: namespace, Name: name})
	if pod == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not served here", namespace, name)
	}
	return pod, nil
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
