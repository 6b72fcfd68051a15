package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// fixture is a fake API server with controllers in a synctest bubble. Time advances only while all goroutines wait.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	stop   []func()

	// cutLeases makes all requests for Leases fail.
	cutLeases atomic.Bool

	mu      sync.Mutex
	changes []string
	pods    map[string][]*corev1.Pod // by Node name
}

// inBubble runs a test in a new synctest bubble, and stops everything that the test started.
func inBubble(t *testing.T, test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, ctx: t.Context(), client: fake.NewClientset()}
		w.client.PrependReactor("patch", "deployments", w.scale)
		w.client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return w.cutLeases.Load(), nil, apierrors.NewServiceUnavailable("cut off")
		})
		defer func() {
			for _, stop := range w.stop {
				stop()
			}
		}()
		test(w)
	})
}

// scale applies a patch to the replicas and increases the generation, like the API server.
func (w *fixture) scale(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchAction)
	if patch.GetSubresource() != "scale" {
		w.t.Errorf("patches subresource %q", patch.GetSubresource())
	}
	deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
	object, err := w.client.Tracker().Get(deployments, patch.GetNamespace(), patch.GetName())
	if err != nil {
		return true, nil, err
	}
	d := object.DeepCopyObject().(*appsv1.Deployment)
	if err := json.Unmarshal(patch.GetPatch(), d); err != nil {
		return true, nil, err
	}
	d.Generation++
	return true, d, w.client.Tracker().Update(deployments, d, d.Namespace)
}

// options returns the options of a controller that uses the informers of a factory.
func (w *fixture) options(identity string, factory informers.SharedInformerFactory) Options {
	return Options{
		Client: w.client, Deployments: factory.Apps().V1().Deployments(), Nodes: factory.Core().V1().Nodes(),
		Env: "dev", Identity: identity, Logger: slog.New(slog.DiscardHandler), Grace: time.Minute,
		Pods: func(nodeName string) []*corev1.Pod {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.pods[nodeName]
		},
		Changed: func(change ReplicaChange) {
			w.mu.Lock()
			defer w.mu.Unlock()
			line := fmt.Sprintf("%s: %s/%s %d -> %d", identity, change.Namespace, change.Name, change.From, change.To)
			if change.Err != nil {
				line += " " + string(errcode.Of(change.Err))
			}
			w.changes = append(w.changes, line)
		},
	}
}

// start starts a controller, and returns a function that stops it.
func (w *fixture) start(identity string) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	factory := informers.NewSharedInformerFactory(w.client, 0)
	c := New(w.options(identity, factory))
	result := make(chan error, 1)
	go func() { result <- c.Start(ctx) }()
	synctest.Wait()
	factory.Start(ctx.Done())
	stop = sync.OnceFunc(func() {
		cancel()
		factory.Shutdown()
		if err := <-result; err != nil {
			w.t.Errorf("Start of %s: %v", identity, err)
		}
	})
	w.stop = append(w.stop, stop)
	return stop
}

// waitForControllers advances the time until the controllers have processed all changes.
func (w *fixture) waitForControllers() { w.advance(5 * time.Second) }

func (w *fixture) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect checks the replica changes since the previous call.
func (w *fixture) expect(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.changes); diff != "" {
		w.t.Errorf("changes %s (-want +got):\n%s", when, diff)
	}
	w.changes = nil
}

// setPods sets the Pods on a Node.
func (w *fixture) setPods(nodeName string, pods ...*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = map[string][]*corev1.Pod{nodeName: pods}
}

func (w *fixture) replicas(name string) int32 {
	w.t.Helper()
	d, err := w.client.AppsV1().Deployments("default").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return *d.Spec.Replicas
}

func (w *fixture) addBases(from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		if _, err := w.client.CoreV1().Nodes().Create(w.ctx,
			base(fmt.Sprint("base-", i), corev1.ConditionTrue, time.Now()), metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *fixture) updateBase(node *corev1.Node) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Nodes().Update(w.ctx, node, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) create(d *appsv1.Deployment) {
	w.t.Helper()
	if _, err := w.client.AppsV1().Deployments(d.Namespace).Create(w.ctx, d, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// update changes a Deployment in the same way as a user would.
func (w *fixture) update(name string, change func(*appsv1.Deployment)) {
	w.t.Helper()
	d, err := w.client.AppsV1().Deployments("default").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	change(d)
	if _, err := w.client.AppsV1().Deployments("default").Update(w.ctx, d, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func peerDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Generation: 1, Labels: map[string]string{
			"virtual-kubelet.koupleless.io/component": "module-deployment",
			"virtual-kubelet.koupleless.io/strategy":  "peer",
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"base.koupleless.io/name": "base"}}},
		},
	}
}

func TestReplicasFollowBases(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.create(peerDeployment("peer"))
		plain := peerDeployment("plain")
		plain.Labels = nil
		w.create(plain)
		w.addBases(0, 3)
		w.start("one")
		w.waitForControllers()
		w.expect("at the start", "one: default/peer 1 -> 3")

		w.addBases(3, 5)
		w.waitForControllers()
		w.expect("after two more bases", "one: default/peer 3 -> 5")

		w.updateBase(base("base-0", corev1.ConditionUnknown, time.Now()))
		w.waitForControllers()
		w.expect("after a base became unreachable")
		w.advance(time.Minute)
		w.expect("a minute later", "one: default/peer 5 -> 4")

		w.updateBase(base("base-0", corev1.ConditionTrue, time.Now()))
		w.waitForControllers()
		w.expect("after the base recovered", "one: default/peer 4 -> 5")

		if err := w.client.CoreV1().Nodes().Delete(w.ctx, "base-4", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.waitForControllers()
		w.expect("after a Node is gone", "one: default/peer 5 -> 4")

		moved := base("base-0", corev1.ConditionTrue, time.Now())
		moved.Labels["base.koupleless.io/name"] = "other"
		w.updateBase(moved)
		w.waitForControllers()
		w.expect("after a base became another", "one: default/peer 4 -> 3")

		w.update("peer", func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Generation = ptr.To[int32](7), d.Generation+
				1
		})
		w.waitForControllers()
		w.expect("after another client changed the replicas", "one: default/peer 7 -> 3")

		w.update("plain", func(d *appsv1.Deployment) { d.Labels = peerDeployment("").Labels })
		w.waitForControllers()
		w.expect("after a Deployment became a peer", "one: default/plain 1 -> 3")

		w.update("plain", func(d *appsv1.Deployment) {
			d.Labels["module-controller.koupleless.io/replicas-control"] = "true"
		})
		w.addBases(10, 11)
		w.waitForControllers()
		w.expect("after a change of replicas-control", "one: default/peer 3 -> 4")
		if got := []int32{w.replicas("peer"), w.replicas("plain")}; !cmp.Equal(got, []int32{4, 3}) {
			t.Errorf("replicas in the API: %v", got)
		}
	})
}

// TestCordonedBaseKeepsItsReplica checks that a cordoned base counts until its Pod of the Deployment is deleted.
func TestCordonedBaseKeepsItsReplica(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := peerDeployment("peer")
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "peer"}}
		d.Spec.Template.Labels = map[string]string{"app": "peer"}
		w.create(d)
		pod := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: d.Spec.Template.Spec}
		pod.Namespace = d.Namespace
		w.setPods("base-0", pod)
		w.addBases(0, 3)
		w.start("one")
		w.waitForControllers()
		w.expect("at the start", "one: default/peer 1 -> 3")

		for _, name := range []string{"base-0", "base-1"} {
			cordoned := base(name, corev1.ConditionTrue, time.Now())
			cordoned.Spec.Unschedulable = true
			w.updateBase(cordoned)
		}
		w.advance(time.Minute)
		w.expect("after two bases were cordoned, one of them with a Pod", "one: default/peer 3 -> 2")

		w.setPods("base-0")
		w.advance(recheckCordoned)
		w.expect("after the Pod was deleted", "one: default/peer 2 -> 1")
	})
}

// TestReplicasControlStopsPendingReduction checks that the controller does not reduce the replicas at the end of the
// grace period if a user has set replicas-control in the meantime.
func TestReplicasControlStopsPendingReduction(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 2)
		w.start("one")
		w.waitForControllers()
		w.expect("at the start", "one: default/peer 1 -> 2")

		w.updateBase(base("base-0", corev1.ConditionUnknown, time.Now()))
		w.waitForControllers()
		w.update("peer", func(d *appsv1.Deployment) {
			d.Labels["virtual-kubelet.koupleless.io/replicas-control"] = "true"
		})
		w.advance(2 * time.Minute)
		w.expect("with replicas-control")

		w.update("peer", func(d *appsv1.Deployment) {
			delete(d.Labels, "virtual-kubelet.koupleless.io/replicas-control")
		})
		w.waitForControllers()
		w.expect("without replicas-control", "one: default/peer 2 -> 1")
	})
}

// TestDeletedDeployment checks that the controller does not retry a deleted Deployment, and forgets the time of its
// last patch.
func TestDeletedDeployment(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	key := types.NamespacedName{Namespace: "default", Name: "deleted"}
	l := &leadership{o: Options{Deployments: factory.Apps().V1().Deployments()},
		patched: map[types.NamespacedName]time.Time{key: time.Now()}}
	if again, err := l.reconcile(t.Context(), key); again != 0 || err != nil || len(l.patched) != 0 {
		t.Errorf("reconcile() = %v, %v; %d patches are remembered, want 0, nil and no patches", again, err,
			len(l.patched))
	}
}

// TestNodeChanges checks which changes of Nodes cause a new count of the bases.
func TestNodeChanges(t *testing.T) {
	now := time.Now()
	ready := base("a", corev1.ConditionTrue, now)
	changed := func(change func(*corev1.Node)) *corev1.Node {
		node := ready.DeepCopy()
		change(node)
		return node
	}
	worker := changed(func(node *corev1.Node) { node.Labels = nil })
	for name, tt := range map[string]struct {
		before, after any
		want          bool
	}{
		"base added":   {nil, ready, true},
		"base deleted": {ready, nil, true},
		"base deleted while the watch was interrupted": {cache.DeletedFinalStateUnknown{Key: "a", Obj: ready}, nil,
			true},
		"worker added":        {nil, worker, false},
		"worker deleted":      {worker, nil, false},
		"worker becomes base": {worker, ready, true},
		"base becomes worker": {ready, worker, true},
		"heartbeat": {ready, changed(func(node *corev1.Node) {
			node.Annotations = map[string]string{"heartbeat": "1"}
			node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(now.Add(time.Minute))
		}), false},
		"not Ready": {ready, changed(func(node *corev1.Node) {
			node.Status.Conditions[1].Status = corev1.ConditionUnknown
		}), true},
		"cordoned": {ready, changed(func(node *corev1.Node) { node.Spec.Unschedulable = true }), true},
		"terminating": {ready, changed(func(node *corev1.Node) {
			node.DeletionTimestamp = &metav1.Time{Time: now}
		}), true},
		"label":   {ready, changed(func(node *corev1.Node) { node.Labels["zone"] = "a" }), true},
		"taint":   {ready, changed(func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: "k"}} }), true},
		"no Node": {nil, &corev1.Pod{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leadership{queue: work.New(work.Options[types.NamespacedName]{MaxDelay: lastPause})}
				l.nodeChanged(tt.before, tt.after)
				<-time.After(debounce)
				synctest.Wait()
				if got := l.queue.Len() == 1; got != tt.want {
					t.Errorf("queued = %t, want %t", got, tt.want)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				l.queue.Run(ctx) // stops the queue
			})
		})
	}
}

func TestManyBasesCauseFewPatches(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.create(peerDeployment("peer"))
		w.start("one")
		w.waitForControllers()
		w.expect("without a base", "one: default/peer 1 -> 0")

		for i := range 20 {
			w.addBases(i*15, (i+1)*15)
			w.advance(100 * time.Millisecond)
		}
		w.waitForControllers()
		if got := w.replicas("peer"); got != 300 {
			t.Errorf("replicas = %d, want 300", got)
		}
		if got := len(w.changes); got > 3 {
			t.Errorf("%d patches, want at most 3: %q", got, w.changes)
		}
		w.changes = nil

		before := len(w.client.Actions())
		heartbeat := base("base-0", corev1.ConditionTrue, time.Now())
		heartbeat.Annotations = map[string]string{"heartbeat": "1"}
		w.updateBase(heartbeat)
		w.update("peer", func(d *appsv1.Deployment) { d.Status.Replicas = 9 })
		synctest.Wait()
		for _, action := range w.client.Actions()[before:] {
			if action.GetVerb() == "patch" {
				t.Errorf("a heartbeat causes %v", action)
			}
		}
	})
}

// TestConflictingClientCausesFewPatches runs another client that changes the replicas after each patch. The
// controller must still send at most one patch per debounce interval.
func TestConflictingClientCausesFewPatches(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 2)
		w.start("one")
		w.waitForControllers()
		w.expect("at the start", "one: default/peer 1 -> 2")
		for range 20 {
			w.update("peer", func(d *appsv1.Deployment) {
				d.Spec.Replicas, d.Generation = ptr.To[int32](
					7), d.Generation+1
			})
			w.advance(100 * time.Millisecond)
		}
		w.waitForControllers()
		w.expect("while another client changes the replicas", "one: default/peer 7 -> 2", "one: default/peer 7 -> 2",
			"one: default/peer 7 -> 2")
	})
}

func TestOnlyTheLeaderPatches(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 2)
		stopOne := w.start("one")
		w.waitForControllers()
		w.start("two")
		w.waitForControllers()
		w.expect("with two instances", "one: default/peer 1 -> 2")

		stopOne()
		w.addBases(2, 4)
		w.waitForControllers()
		w.expect("after the leader ended", "two: default/peer 2 -> 4")
	})
}

// TestLeaderStopsWithoutLease checks that a leader that cannot renew its Lease stops, and that the other controller
// takes over after the Lease has expired.
func TestLeaderStopsWithoutLease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 1)
		w.start("one")
		w.waitForControllers()
		w.start("two")
		w.waitForControllers()

		w.cutLeases.Store(true)
		w.advance(20 * time.Second)
		w.addBases(1, 3)
		w.waitForControllers()
		w.expect("while no controller can lead")

		w.cutLeases.Store(false)
		w.advance(20 * time.Second)
		if got := w.replicas("peer"); got != 3 || len(w.changes) != 1 {
			t.Errorf("replicas = %d after %q, want 3 after one change", got, w.changes)
		}
	})
}

func TestFailedPatchIsReportedAndRepeated(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := []struct {
		name string
		err  error
		want []string
	}{
		{"refused", apierrors.NewBadRequest("no"),
			[]string{"one: default/peer 1 -> 2 ModuleController.RescaleRequirementNotMet", "one: default/peer 1 -> 2"}},
		{"forbidden", apierrors.NewForbidden(resource, "peer", nil),
			[]string{"one: default/peer 1 -> 2 OtherUpstream.SecretAKError", "one: default/peer 1 -> 2"}},
		{"away", apierrors.NewServiceUnavailable("down"),
			[]string{"one: default/peer 1 -> 2 ModuleController.DBAccessError", "one: default/peer 1 -> 2"}},
		{"gone", apierrors.NewNotFound(resource, "peer"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				w.create(peerDeployment("peer"))
				w.addBases(0, 2)
				failed := false // only the worker uses it
				w.client.PrependReactor("patch", "deployments",
					func(clienttesting.Action) (bool, runtime.Object, error) {
						first := !failed
						failed = true
						return first, nil, tt.err
					})
				w.start("one")
				w.advance(900 * time.Millisecond)
				w.expect("after a failure", tt.want...)
			})
		})
	}
}

// TestStartErrors checks that Start returns an error if the controller cannot compete for the leadership or watch the
// Nodes.
func TestStartErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		identity      string
		stopInformers bool
		want          string
	}{
		"no identity":       {"", false, "leader election for peer Deployments: Lock identity is empty"},
		"stopped informers": {"one", true, "leader election for peer Deployments: watching Nodes: "},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				factory := informers.NewSharedInformerFactory(w.client, 0)
				o := w.options(tt.identity, factory)
				o.Deployments.Informer()
				o.Nodes.Informer()
				ctx, stopInformers := context.WithCancel(w.ctx)
				defer factory.Shutdown()
				defer stopInformers()
				factory.Start(ctx.Done())
				factory.WaitForCacheSync(ctx.Done())
				if tt.stopInformers {
					stopInformers()
					factory.Shutdown()
				}
				if err := New(o).Start(w.ctx); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("Start() = %v, want the error %q", err, tt.want)
				}
			})
		})
	}
}

// TestStopBeforeSync checks that a controller that is stopped before its informers have synced does not compete for
// the leadership, and returns no error.
func TestStopBeforeSync(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithCancel(w.ctx)
		result := make(chan error, 1)
		o := w.options("one", informers.NewSharedInformerFactory(w.client, 0))
		go func() { result <- New(o).Start(ctx) }()
		w.waitForControllers()
		cancel()
		if err := <-result; err != nil {
			t.Errorf("Start() = %v, want nil", err)
		}
		if actions := w.client.Actions(); len(actions) > 0 {
			t.Errorf("requests: %v, want none", actions)
		}
	})
}
