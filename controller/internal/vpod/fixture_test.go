package vpod

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// mode determines what a base does when a second version of a module is installed (protocol 5.3).
type mode int

const (
	activateNew mode = iota
	activateMulti
	keepOld
)

// fakeBase implements the tunnel to one base, and the base itself. The base answers commands after delay.
type fakeBase struct {
	w               *fixture
	key             tunnel.Key
	mode            mode
	delay           time.Duration
	mu              sync.Mutex
	modules         []arklet.Biz
	commands        []string
	uninstalledURLs []string // jars in the uninstall commands
	// installAnswer, if set, returns the answer to an install command; nil means that the install succeeds.
	installAnswer func(m arklet.Module) *arklet.Answer
	// sendError, if set, is the error of the tunnel for commands.
	sendError error
	// stopFails makes uninstall commands remove the module, but answer with a failure.
	stopFails bool
	// refuseUninstall is a module (name:version) that the base refuses to uninstall.
	refuseUninstall string
	// ignoreAll makes the base ignore all commands. ignore is a single command that the base ignores.
	ignoreAll bool
	ignore    arklet.Command
	// listsEndCommands makes a module list complete the pending commands whose results it shows, as in the real
	// controller.
	listsEndCommands bool
	urls             map[string]string // jars of the last installs by name:version
}

func (b *fakeBase) Key() tunnel.Key { return b.key }

func (b *fakeBase) Send(_ context.Context, to tunnel.Address, r arklet.Request) error {
	b.mu.Lock()
	if r.Command != arklet.CommandQueryAllBiz {
		command := string(r.Command) + " " + r.Module.Identity()
		if r.UninstallFirst {
			command += " uninstallThenInstall"
		}
		b.commands = append(b.commands, command)
		if r.Command == arklet.CommandUninstallBiz {
			b.uninstalledURLs = append(b.uninstalledURLs, r.Module.URL)
		}
	}
	mute, wait, err := b.ignoreAll || r.Command == b.ignore, b.delay, b.sendError
	b.mu.Unlock()
	if err != nil && r.Command != arklet.CommandQueryAllBiz {
		return err
	}
	if mute {
		return nil
	}
	if r.Command == arklet.CommandQueryAllBiz {
		wait = 0
	}
	time.AfterFunc(wait, func() { b.answer(to.Identity, r) })
	return nil
}

func (b *fakeBase) answer(identity string, r arklet.Request) {
	b.mu.Lock()
	from := tunnel.Origin{Tunnel: b.key, Identity: identity, At: time.Now()}
	if r.Command == arklet.CommandQueryAllBiz {
		list, tells := slices.Clone(b.modules), b.listsEndCommands
		b.mu.Unlock()
		b.w.registry.SetModules(from, list)
		if tells {
			b.w.requests.HandleList(identity)
		}
		return
	}
	a := b.run(r)
	b.mu.Unlock()
	a.Command, a.Module, a.PublishedAt = r.Command, arklet.Module{Name: r.Module.Name,
		Version: r.Module.Version}, from.At
	b.w.requests.HandleAnswer(identity, a)
}

func (b *fakeBase) run(r arklet.Request) arklet.Answer {
	ok := arklet.Answer{Code: "SUCCESS", DataCode: "SUCCESS"}
	if r.UninstallFirst {
		b.modules = slices.DeleteFunc(b.modules, func(m arklet.Biz) bool { return m.Name == r.Module.Name })
	}
	i := slices.IndexFunc(b.modules, func(m arklet.Biz) bool {
		return m.Module() == (arklet.Module{Name: r.Module.Name, Version: r.Module.Version})
	})
	switch r.Command {
	case arklet.CommandInstallBiz:
		if i >= 0 {
			return arklet.Answer{Code: "FAILED", DataCode: "REPEAT_BIZ", Message: "install biz not success!"}
		}
		if b.installAnswer != nil {
			if a := b.installAnswer(r.Module); a != nil {
				return *a
			}
		}
		b.install(r.Module)
	case arklet.CommandUninstallBiz:
		if i < 0 {
			return arklet.Answer{Code: "FAILED", DataCode: "NOT_FOUND_BIZ", Message: "uninstall biz not success!"}
		}
		if r.Module.Identity() == b.refuseUninstall {
			return arklet.Answer{Code: "FAILED", DataCode: "FAILED", Message: "uninstall biz not success!"}
		}
		b.modules = slices.Delete(b.modules, i, i+1)
		if b.stopFails {
			return arklet.Answer{Code: "FAILED", DataCode: "FAILED", Message: "java.lang.IllegalStateException: stop",
				DataMessage: "java.lang.IllegalStateException: stop"}
		}
	case arklet.CommandSwitchBiz:
		for j := range b.modules {
			if b.modules[j].Name == r.Module.Name && b.modules[j].State == arklet.StateActivated {
				b.set(j, arklet.StateDeactivated, "SWITCHED")
			}
		}
		b.set(i, arklet.StateActivated, "SWITCHED")
	}
	return ok
}

func (b *fakeBase) install(m arklet.Module) {
	biz := arklet.Biz{Name: m.Name, Version: m.Version}
	b.modules = append(b.modules, biz)
	last := len(b.modules) - 1
	if b.urls == nil {
		b.urls = map[string]string{}
	}
	b.urls[m.Identity()] = m.URL
	active := slices.IndexFunc(b.modules,
		func(o arklet.Biz) bool { return o.Name == m.Name && o.State == arklet.StateActivated })
	switch {
	case active >= 0 && b.mode == keepOld:
		b.set(last, arklet.StateDeactivated, "STARTED")
		return
	case active >= 0 && b.mode == activateNew:
		b.set(active, arklet.StateDeactivated, "SWITCHED")
	}
	b.set(last, arklet.StateActivated, "STARTED")
}

func (b *fakeBase) set(i int, s arklet.State, reason string) {
	b.modules[i].State = s
	b.modules[i].Latest = arklet.Record{At: time.Now().Truncate(time.Second), State: s, Reason: reason}
}

// change calls f with the lock of the base held. f may change the base.
func (b *fakeBase) change(f func(b *fakeBase)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// takeCommands returns the commands that the base has received since the last call, except module list queries.
func (b *fakeBase) takeCommands() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.commands
	b.commands = nil
	return c
}

// loseModules removes all modules from the base and sends the empty module list, as after a restart of the base.
func (b *fakeBase) loseModules() {
	b.mu.Lock()
	b.modules = nil
	b.mu.Unlock()
	b.w.registry.SetModules(tunnel.Origin{Tunnel: b.key, Identity: "a", At: time.Now()}, nil)
}

// sendList makes the base send its module list.
func (b *fakeBase) sendList() {
	b.mu.Lock()
	list := slices.Clone(b.modules)
	b.mu.Unlock()
	b.w.registry.SetModules(tunnel.Origin{Tunnel: b.key, Identity: "a", At: time.Now()}, list)
}

// states returns the states of the modules on the base by name:version.
func (b *fakeBase) states() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := map[string]string{}
	for _, biz := range b.modules {
		m[biz.Module().Identity()] = string(biz.State)
	}
	return m
}

// fixture consists of a Provider, a fake API server, and the fake base "a" on Node "vnode.a". It runs in a synctest
// bubble.
type fixture struct {
	*Provider
	t      *testing.T
	api    *fake.Clientset
	events *record.FakeRecorder
	base   *fakeBase
	serial int
	owners []metav1.OwnerReference // owner references of the Pods that fixture.create adds
	// strategy is the install strategy of the Pods that fixture.create adds; empty means no annotation.
	strategy string

	refuseWrites atomic.Bool // whether the API server rejects writes of Pod status
}

func newFixture(t *testing.T, opts Options) *fixture {
	t.Helper()
	w := &fixture{
		t: t, api: fake.NewClientset(), events: record.NewFakeRecorder(100),
		owners: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: ptr.To(true)}},
	}
	w.addReactors()
	w.base = &fakeBase{w: w, key: tunnel.MQTT, delay: 100 * time.Millisecond}
	opts.Recorder = w.events
	opts.ModuleFailed = func(*corev1.Pod, string, arklet.Module, error) {}
	opts.CommandSent = func(string, arklet.Request) {}
	if opts.CommandFinished == nil {
		opts.CommandFinished = func(CommandResult) {}
	}
	if opts.SaveInstallRecord == nil {
		opts.SaveInstallRecord = func(context.Context, string) {}
	}
	if opts.InstallRecordChanged == nil {
		opts.InstallRecordChanged = func(string) {}
	}
	if opts.EndpointLag == nil {
		opts.EndpointLag = func() time.Duration { return 0 }
	}
	if opts.Node == nil {
		opts.Node = func(string) *corev1.Node { return nil }
	}
	opts.InstallTimeout = cmp.Or(opts.InstallTimeout, api.InstallTimeout)
	opts.UninstallTimeout = cmp.Or(opts.UninstallTimeout, api.UninstallTimeout)
	opts.Drain = cmp.Or(opts.Drain, api.Drain)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	registry := base.NewRegistry(base.Options{Observer: func(c base.Change) { w.BaseChanged(c) }})
	requests := base.NewRequestTracker(registry)
	requests.AddTunnel(w.base)
	workloads := informers.NewSharedInformerFactory(w.api, 0)
	opts.Workloads = workloads.Apps().V1()
	w.Provider = New(opts, w.api, registry, requests)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Start(ctx); err != nil {
			t.Errorf("provider: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); workloads.Shutdown() })
	workloads.Start(ctx.Done())
	w.sendHeartbeat()
	w.Serve("a", "vnode.a", "")
	w.advance(time.Second)
	return w
}

// nextVersion returns a copy of a Pod with the next resource version.
func nextVersion(stored runtime.Object) *corev1.Pod {
	pod := stored.(*corev1.Pod).DeepCopy()
	version, err := strconv.Atoi(pod.ResourceVersion)
	if err != nil {
		panic(err) // the create reactor sets a number
	}
	pod.ResourceVersion = strconv.Itoa(version + 1)
	return pod
}

// filterWatch returns a watch of the Pods that match a selector. It replaces watch.Filter, which blocks indefinitely
// if it is stopped while no goroutine reads events.
func filterWatch(all watch.Interface, selector k8slabels.Selector) watch.Interface {
	events := make(chan watch.Event)
	w := watch.NewProxyWatcher(events)
	go func() {
		defer all.Stop()
		for {
			select {
			case e := <-all.ResultChan():
				if !selector.Matches(k8slabels.Set(e.Object.(*corev1.Pod).Labels)) {
					continue
				}
				select {
				case events <- e:
				case <-w.StopChan():
					return
				}
			case <-w.StopChan():
				return
			}
		}
	}()
	return w
}

// addReactors makes the fake clientset behave like the API server: a deletion with a grace period only sets the
// deletion timestamp, a write of the status changes only the status, and each write changes the resource version.
func (w *fixture) addReactors() {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	// the fake ignores selectors
	w.api.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		all, err := w.api.Tracker().Watch(gvr, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, filterWatch(all, a.(clienttesting.WatchAction).GetWatchRestrictions().Labels), nil
	})
	w.api.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).ResourceVersion = "1"
		return false, nil, nil
	})
	w.api.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := a.(clienttesting.UpdateAction)
		if a.GetSubresource() != "status" {
			pod := u.GetObject().(*corev1.Pod)
			pod.ResourceVersion = nextVersion(pod).ResourceVersion
			return false, nil, nil
		}
		if w.refuseWrites.Load() {
			return true, nil, errors.New("the API server is unavailable")
		}
		update := u.GetObject().(*corev1.Pod)
		stored, err := w.api.Tracker().Get(gvr, update.Namespace, update.Name)
		if err != nil {
			return true, nil, err
		}
		if err := w.sameUID(stored.(*corev1.Pod), update.UID); err != nil {
			return true, nil, err
		}
		pod := nextVersion(stored)
		pod.Status = *update.Status.DeepCopy()
		return true, pod, w.api.Tracker().Update(gvr, pod, pod.Namespace)
	})
	w.api.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct{ Metadata struct{ UID types.UID } }
		p := a.(clienttesting.PatchAction)
		if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		stored, err := w.api.Tracker().Get(gvr, p.GetNamespace(), p.GetName())
		if err == nil && w.sameUID(stored.(*corev1.Pod), patch.Metadata.UID) != nil {
			err = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), p.GetName(),
				field.ErrorList{
					field.Invalid(field.NewPath("metadata", "uid"), patch.Metadata.UID, "field is immutable"),
				})
		}
		if err != nil {
			return true, nil, err
		}
		_, patched, err := clienttesting.ObjectReaction(w.api.Tracker())(a)
		if err != nil {
			return true, nil, err
		}
		pod := nextVersion(patched)
		return true, pod, w.api.Tracker().Update(gvr, pod, pod.Namespace)
	})
	w.api.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d := a.(clienttesting.DeleteActionImpl)
		stored, err := w.api.Tracker().Get(gvr, d.Namespace, d.Name)
		if err != nil {
			return true, nil, err
		}
		pod := nextVersion(stored)
		if p := d.DeleteOptions.Preconditions; p != nil && p.UID != nil && *p.UID != pod.UID {
			return true, nil, apierrors.NewConflict(gvr.GroupResource(), d.Name, errors.New("another UID"))
		}
		grace := ptr.Deref(d.DeleteOptions.GracePeriodSeconds, 30)
		if grace == 0 && len(pod.Finalizers) == 0 {
			return false, nil, nil
		}
		if pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) <= grace {
			return true, nil, nil // a finalizer keeps the Pod, and nothing changes
		}
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)))
		pod.DeletionGracePeriodSeconds = &grace
		return true, nil, w.api.Tracker().Update(gvr, pod, d.Namespace)
	})
}

// sameUID returns the error of the API server for a write to a Pod with another UID. It fails the test on a write
// without a UID.
func (w *fixture) sameUID(stored *corev1.Pod, uid types.UID) error {
	switch uid {
	case "":
		w.t.Errorf("a write to Pod %s has no UID", stored.Name)
	case stored.UID:
	default:
		return apierrors.NewConflict(corev1.Resource("pods"), stored.Name, errors.New("another UID"))
	}
	return nil
}

func (w *fixture) sendHeartbeat() {
	_, _ = w.registry.HandleHeartbeat(tunnel.Origin{Tunnel: w.base.key, Identity: "a"},
		arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", Active: true})
}

// advance advances the fake time by d, and waits until all goroutines are blocked.
func (w *fixture) advance(d time.Duration) {
	time.Sleep(d) // in a synctest bubble: no real time passes
	synctest.Wait()
}

func container(name, version string) corev1.Container {
	return corev1.Container{Name: name, Image: fmt.Sprintf("file:///m/%s-%s.jar", name, version),
		Env: []corev1.EnvVar{{Name: labels.VersionEnv, Value: version}}}
}

// componentLabels contains the two spellings of the module label. create alternates between them.
var componentLabels = []string{labels.Component, labels.OlderComponent}

func (w *fixture) create(name string, containers ...corev1.Container) *corev1.Pod {
	w.t.Helper()
	w.serial++
	var annotations map[string]string
	if w.strategy != "" {
		annotations = map[string]string{labels.InstallStrategy: w.strategy}
	}
	pod, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(fmt.Sprintf("uid-%d", w.serial)),
			CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels:            map[string]string{componentLabels[w.serial%2]: labels.Module},
			Annotations:       annotations,
			OwnerReferences:   w.owners,
		},
		Spec: corev1.PodSpec{NodeName: "vnode.a", Containers: containers},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// applyDaemonSet creates or updates a DaemonSet that requests a version of biz1. The DaemonSet owns the Pods that are
// created later.
func (w *fixture) applyDaemonSet(version string) {
	w.t.Helper()
	w.owners = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ds", Controller: ptr.To(true)}}
	w.serial++
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ds", Namespace: "default", Generation: int64(w.serial)}}
	d.Spec.Template.Spec.Containers = []corev1.Container{container("biz1", version)}
	_, err := w.api.AppsV1().DaemonSets("default").Update(w.t.Context(), d, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.api.AppsV1().DaemonSets("default").Create(w.t.Context(), d, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// add adds a Pod to the API server.
func (w *fixture) add(pod *corev1.Pod) {
	w.t.Helper()
	if _, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// update updates a Pod on the API server, as a user does.
func (w *fixture) update(pod *corev1.Pod) {
	w.t.Helper()
	if _, err := w.api.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) delete(name string) {
	w.t.Helper()
	if err := w.api.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// pod returns a Pod from the API server; nil if it does not exist.
func (w *fixture) pod(name string) *corev1.Pod {
	p, err := w.api.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// summary returns the phase and the readiness of a Pod, and the reason of each waiting container; it returns "gone"
// if the Pod does not exist.
func (w *fixture) summary(name string) string { return podSummary(w.pod(name)) }

func podSummary(p *corev1.Pod) string {
	if p == nil {
		return "gone"
	}
	s := string(p.Status.Phase)
	if podstatus.IsReady(&p.Status) {
		s += " Ready"
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			s += " " + c.State.Waiting.Reason
		}
	}
	return s
}

func (w *fixture) wantSummary(name, want string) {
	w.t.Helper()
	if got := w.summary(name); got != want {
		w.t.Errorf("status of pod %s: %q, want %q", name, got, want)
	}
}

// readiness returns the readiness that the controller has written so far, as name=Ready or name=NotReady. It omits
// consecutive writes with the same readiness of a Pod.
func (w *fixture) readiness() (list []string) {
	last := map[string]string{}
	for _, a := range w.api.Actions() {
		u, ok := a.(clienttesting.UpdateAction)
		if !ok || a.GetResource().Resource != "pods" || a.GetSubresource() != "status" {
			continue
		}
		p := u.GetObject().(*corev1.Pod)
		s := p.Name + "=NotReady"
		if podstatus.IsReady(&p.Status) {
			s = p.Name + "=Ready"
		}
		if last[p.Name] != s {
			last[p.Name] = s
			list = append(list, s)
		}
	}
	return list
}

// statusWrites returns the number of writes of Pod status so far.
func (w *fixture) statusWrites() (n int) {
	for _, a := range w.api.Actions() {
		if a.GetVerb() == "update" && a.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// refuseStatusWrites sets whether the API server rejects all writes of Pod status.
func (w *fixture) refuseStatusWrites(refused bool) {
	w.refuseWrites.Store(refused)
}

// setRunTime makes the base report how long it has been running.
func (w *fixture) setRunTime(runs time.Duration) {
	w.registry.SetHealth(tunnel.Origin{Tunnel: w.base.key, Identity: "a"}, arklet.Health{RunTime: runs})
}

// setMetaspaceUsed makes the base report that the given number of bytes of its 256 MiB of metaspace is used.
func (w *fixture) setMetaspaceUsed(used int64) {
	w.registry.SetHealth(tunnel.Origin{Tunnel: w.base.key, Identity: "a"},
		arklet.Health{MetaspaceUsed: used, MetaspaceMax: 256 << 20})
}
