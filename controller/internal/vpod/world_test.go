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

// mode is how a base treats a second version of a module (protocol 5.3).
type mode int

const (
	activateNew mode = iota
	activateMulti
	keepOld
)

// fakeBase is a base as far as these tests need one. Its answers come after delay.
type fakeBase struct {
	w        *world
	key      tunnel.Key
	mode     mode
	delay    time.Duration
	mu       sync.Mutex
	modules  []arklet.Biz
	commands []string
	removed  []string // the jars of uninstalls, as they were logged
	// fail, if set, answers installs of a module with a failure.
	fail func(m arklet.Module) *arklet.Answer
	// stopFails has uninstalls answered with a failure, although the module goes.
	stopFails bool
	// keeps is a module, as name:version, that is not uninstalled.
	keeps string
	// mute swallows commands; hang swallows one of them.
	mute bool
	hang arklet.Command
	// tells has its lists show what has got lost, as in a whole controller. Lists show no install under way.
	tells bool
	urls  map[string]string // of what was installed, by name:version
}

func (b *fakeBase) Key() tunnel.Key { return b.key }

func (b *fakeBase) Send(_ context.Context, to tunnel.Address, r arklet.Request) error {
	b.mu.Lock()
	if r.Command != arklet.CommandQueryAllBiz {
		b.commands = append(b.commands, string(r.Command)+" "+r.Module.Identity())
		if r.Command == arklet.CommandUninstallBiz {
			b.removed = append(b.removed, r.Module.URL)
		}
	}
	mute, wait := b.mute || r.Command == b.hang, b.delay
	b.mu.Unlock()
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
		list, tells := slices.Clone(b.modules), b.tells
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
	i := slices.IndexFunc(b.modules, func(m arklet.Biz) bool {
		return m.Module() == (arklet.Module{Name: r.Module.Name, Version: r.Module.Version})
	})
	switch r.Command {
	case arklet.CommandInstallBiz:
		if i >= 0 {
			return arklet.Answer{Code: "FAILED", DataCode: "REPEAT_BIZ", Message: "install biz not success!"}
		}
		if b.fail != nil {
			if a := b.fail(r.Module); a != nil {
				return *a
			}
		}
		b.install(r.Module)
	case arklet.CommandUninstallBiz:
		if i < 0 {
			return arklet.Answer{Code: "FAILED", DataCode: "NOT_FOUND_BIZ", Message: "uninstall biz not success!"}
		}
		if r.Module.Identity() == b.keeps {
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

// with changes how the base behaves.
func (b *fakeBase) with(f func(b *fakeBase)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// takeCommands returns the commands since the last call.
func (b *fakeBase) takeCommands() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.commands
	b.commands = nil
	return c
}

// lose empties the base, as a restart does.
func (b *fakeBase) lose() {
	b.mu.Lock()
	b.modules = nil
	b.mu.Unlock()
	b.w.registry.SetModules(tunnel.Origin{Tunnel: b.key, Identity: "a", At: time.Now()}, nil)
}

// tell has the base send its list, as it does when it is asked.
func (b *fakeBase) tell() {
	b.mu.Lock()
	list := slices.Clone(b.modules)
	b.mu.Unlock()
	b.w.registry.SetModules(tunnel.Origin{Tunnel: b.key, Identity: "a", At: time.Now()}, list)
}

// states lists what is installed.
func (b *fakeBase) states() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := map[string]string{}
	for _, biz := range b.modules {
		m[biz.Module().Identity()] = string(biz.State)
	}
	return m
}

// world is a provider over a fake API and a fake base "a" that is node "vnode.a". It lives in a synctest bubble.
type world struct {
	*Provider
	t      *testing.T
	api    *fake.Clientset
	events *record.FakeRecorder
	base   *fakeBase
	serial int
	owners []metav1.OwnerReference // of the Pods that create makes

	refused atomic.Bool // writes of status
}

func newWorld(t *testing.T, opts Options) *world {
	t.Helper()
	w := &world{
		t: t, api: fake.NewClientset(), events: record.NewFakeRecorder(100),
		owners: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: ptr.To(true)}},
	}
	w.likeTheAPIServer()
	w.base = &fakeBase{w: w, key: tunnel.MQTT, delay: 100 * time.Millisecond}
	opts.Recorder = w.events
	opts.Failure = func(*corev1.Pod, string, arklet.Module, error) {}
	opts.Asked = func(string, arklet.Request) {}
	if opts.Answered == nil {
		opts.Answered = func(Outcome) {}
	}
	if opts.Keep == nil {
		opts.Keep = func(context.Context, string) {}
	}
	if opts.LedgerChanged == nil {
		opts.LedgerChanged = func(string) {}
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
	w.hear()
	w.Serve("a", "vnode.a", "")
	w.pass(time.Second)
	return w
}

// nextVersion is a copy of a Pod as the API server has it after a write.
func nextVersion(stored runtime.Object) *corev1.Pod {
	pod := stored.(*corev1.Pod).DeepCopy()
	version, err := strconv.Atoi(pod.ResourceVersion)
	if err != nil {
		panic(err) // its creation gave it one
	}
	pod.ResourceVersion = strconv.Itoa(version + 1)
	return pod
}

// selected is a watch of the Pods that a selector matches. (watch.Filter blocks for ever when it is
// stopped while nobody reads.)
func selected(all watch.Interface, selector k8slabels.Selector) watch.Interface {
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

// likeTheAPIServer has a delete mark a Pod first and remove it at a delete without grace, a write
// of status leave the rest alone, and each of them make a new version.
func (w *world) likeTheAPIServer() {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	w.api.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) { // by label, too
		all, err := w.api.Tracker().Watch(gvr, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, selected(all, a.(clienttesting.WatchAction).GetWatchRestrictions().Labels), nil
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
		if w.refused.Load() {
			return true, nil, errors.New("the API server is away")
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
			return true, nil, nil // a finalizer holds it, and nothing changes
		}
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)))
		pod.DeletionGracePeriodSeconds = &grace
		return true, nil, w.api.Tracker().Update(gvr, pod, d.Namespace)
	})
}

// sameUID returns the error of the API server for an update of a Pod with another UID. Every write names a UID.
func (w *world) sameUID(stored *corev1.Pod, uid types.UID) error {
	switch uid {
	case "":
		w.t.Errorf("a write to Pod %s has no UID", stored.Name)
	case stored.UID:
	default:
		return apierrors.NewConflict(corev1.Resource("pods"), stored.Name, errors.New("another UID"))
	}
	return nil
}

func (w *world) hear() {
	_, _ = w.registry.HandleHeartbeat(tunnel.Origin{Tunnel: w.base.key, Identity: "a"},
		arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", Active: true})
}

// pass lets time pass until nothing is under way.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // in a synctest bubble: no real time passes
	synctest.Wait()
}

func container(name, version string) corev1.Container {
	return corev1.Container{Name: name, Image: fmt.Sprintf("file:///m/%s-%s.jar", name, version),
		Env: []corev1.EnvVar{{Name: labels.VersionEnv, Value: version}}}
}

// spellings are those of the label that makes a Pod a module.
var spellings = []string{labels.Component, labels.OlderComponent}

func (w *world) create(name string, containers ...corev1.Container) *corev1.Pod {
	w.t.Helper()
	w.serial++
	pod, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(fmt.Sprintf("uid-%d", w.serial)),
			CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels:            map[string]string{spellings[w.serial%2]: labels.Module}, // either spelling
			OwnerReferences:   w.owners,
		},
		Spec: corev1.PodSpec{NodeName: "vnode.a", Containers: containers},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// wants has the DaemonSet of the Pods that are created want a version of biz1.
func (w *world) wants(version string) {
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

// add creates a Pod.
func (w *world) add(pod *corev1.Pod) {
	w.t.Helper()
	if _, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// update writes a Pod as a user does.
func (w *world) update(pod *corev1.Pod) {
	w.t.Helper()
	if _, err := w.api.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.api.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// pod reads a Pod; nil if it is no more.
func (w *world) pod(name string) *corev1.Pod {
	p, err := w.api.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// show is a Pod's phase, readiness and the reason of each container that waits.
func (w *world) show(name string) string { return show(w.pod(name)) }

func show(p *corev1.Pod) string {
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

func (w *world) wantShow(name, want string) {
	w.t.Helper()
	if got := w.show(name); got != want {
		w.t.Errorf("pod %s is %q, want %q", name, got, want)
	}
}

// readiness lists the status writes of Pods so far as name=Ready or name=NotReady, repeats left
// out.
func (w *world) readiness() (list []string) {
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

// statusWrites counts the writes of Pod status so far.
func (w *world) statusWrites() (n int) {
	for _, a := range w.api.Actions() {
		if a.GetVerb() == "update" && a.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// refuse has the API server take no write of status, or take them again.
func (w *world) refuse(refused bool) {
	w.refused.Store(refused)
}

// health has the base tell how long it has been running.
func (w *world) health(runs time.Duration) {
	w.registry.SetHealth(tunnel.Origin{Tunnel: w.base.key, Identity: "a"}, arklet.Health{RunTime: runs})
}

// metaspace has the base tell how many bytes of 256 MiB it uses.
func (w *world) metaspace(used int64) {
	w.registry.SetHealth(tunnel.Origin{Tunnel: w.base.key, Identity: "a"},
		arklet.Health{MetaspaceUsed: used, MetaspaceMax: 256 << 20})
}
