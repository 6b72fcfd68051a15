package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// world is a fake API server with controllers in a synctest bubble. Time advances only while all goroutines wait.
type world struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	stop   []func()

	// cutLeases makes all requests for Leases fail.
	cutLeases atomic.Bool

	mu      sync.Mutex
	changes []string
}

// inBubble runs a test in a new synctest bubble, and stops everything that the test started.
func inBubble(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ctx: t.Context(), client: fake.NewClientset()}
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
func (w *world) scale(action clienttesting.Action) (bool, runtime.Object, error) {
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

// start starts a controller, and returns a function that stops it.
func (w *world) start(identity string) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	factory := informers.NewSharedInformerFactory(w.client, 0)
	c := New(Options{
		Client: w.client, Deployments: factory.Apps().V1().Deployments(), Nodes: factory.Core().V1().Nodes(),
		Env: "dev", Identity: identity, Logger: slog.New(slog.DiscardHandler), Grace: time.Minute,
		Pods: func(string) []*corev1.Pod { return nil },
		Changed: func(change ReplicaChange) {
			w.mu.Lock()
			defer w.mu.Unlock()
			line := fmt.Sprintf("%s: %s/%s %d -> %d", identity, change.Namespace, change.Name, change.From, change.To)
			if change.Err != nil {
				line += " " + string(errcode.Of(change.Err))
			}
			w.changes = append(w.changes, line)
		},
	})
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

// react advances the time until the controllers have processed all changes.
func (w *world) react() { w.pass(5 * time.Second) }

func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect checks the replica changes since the previous call.
func (w *world) expect(when string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.changes); diff != "" {
		w.t.Errorf("changes %s (-want +got):\n%s", when, diff)
	}
	w.changes = nil
}

func (w *world) replicas(name string) int32 {
	w.t.Helper()
	d, err := w.client.AppsV1().Deployments("default").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return *d.Spec.Replicas
}

func (w *world) addBases(from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		if _, err := w.client.CoreV1().Nodes().Create(w.ctx,
			base(fmt.Sprint("base-", i), corev1.ConditionTrue, time.Now()), metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) updateBase(node *corev1.Node) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Nodes().Update(w.ctx, node, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(d *appsv1.Deployment) {
	w.t.Helper()
	if _, err := w.client.AppsV1().Deployments(d.Namespace).Create(w.ctx, d, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// update changes a Deployment in the same way as a user would.
func (w *world) update(name string, change func(*appsv1.Deployment)) {
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
	inBubble(t, func(w *world) {
		w.create(peerDeployment("peer"))
		plain := peerDeployment("plain")
		plain.Labels = nil
		w.create(plain)
		w.addBases(0, 3)
		w.start("one")
		w.react()
		w.expect("at the start", "one: default/peer 1 -> 3")

		w.addBases(3, 5)
		w.react()
		w.expect("after two more bases", "one: default/peer 3 -> 5")

		w.updateBase(base("base-0", corev1.ConditionUnknown, time.Now()))
		w.react()
		w.expect("after a base became unreachable")
		w.pass(time.Minute)
		w.expect("a minute later", "one: default/peer 5 -> 4")

		w.updateBase(base("base-0", corev1.ConditionTrue, time.Now()))
		w.react()
		w.expect("after the base recovered", "one: default/peer 4 -> 5")

		if err := w.client.CoreV1().Nodes().Delete(w.ctx, "base-4", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.react()
		w.expect("after a Node is gone", "one: default/peer 5 -> 4")

		moved := base("base-0", corev1.ConditionTrue, time.Now())
		moved.Labels["base.koupleless.io/name"] = "other"
		w.updateBase(moved)
		w.react()
		w.expect("after a base became another", "one: default/peer 4 -> 3")

		w.update("peer", func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Generation = ptr.To[int32](7), d.Generation+
				1
		})
		w.react()
		w.expect("after another client changed the replicas", "one: default/peer 7 -> 3")

		w.update("plain", func(d *appsv1.Deployment) { d.Labels = peerDeployment("").Labels })
		w.react()
		w.expect("after a Deployment became a peer", "one: default/plain 1 -> 3")

		w.update("plain", func(d *appsv1.Deployment) {
			d.Labels["module-controller.koupleless.io/replicas-control"] = "true"
		})
		w.addBases(10, 11)
		w.react()
		w.expect("after a change of replicas-control", "one: default/peer 3 -> 4")
		if got := []int32{w.replicas("peer"), w.replicas("plain")}; !cmp.Equal(got, []int32{4, 3}) {
			t.Errorf("replicas in the API: %v", got)
		}
	})
}

func TestManyBasesCauseFewPatches(t *testing.T) {
	inBubble(t, func(w *world) {
		w.create(peerDeployment("peer"))
		w.start("one")
		w.react()
		w.expect("without a base", "one: default/peer 1 -> 0")

		for i := range 20 {
			w.addBases(i*15, (i+1)*15)
			w.pass(100 * time.Millisecond)
		}
		w.react()
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
	inBubble(t, func(w *world) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 2)
		w.start("one")
		w.react()
		w.expect("at the start", "one: default/peer 1 -> 2")
		for range 20 {
			w.update("peer", func(d *appsv1.Deployment) {
				d.Spec.Replicas, d.Generation = ptr.To[int32](
					7), d.Generation+1
			})
			w.pass(100 * time.Millisecond)
		}
		w.react()
		w.expect("while another client changes the replicas", "one: default/peer 7 -> 2", "one: default/peer 7 -> 2",
			"one: default/peer 7 -> 2")
	})
}

func TestOnlyTheLeaderPatches(t *testing.T) {
	inBubble(t, func(w *world) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 2)
		stopOne := w.start("one")
		w.react()
		w.start("two")
		w.react()
		w.expect("with two instances", "one: default/peer 1 -> 2")

		stopOne()
		w.addBases(2, 4)
		w.react()
		w.expect("after the leader ended", "two: default/peer 2 -> 4")
	})
}

// TestLeaderStopsWithoutLease checks that a leader that cannot renew its Lease stops, and that the other controller
// takes over after the Lease has expired.
func TestLeaderStopsWithoutLease(t *testing.T) {
	inBubble(t, func(w *world) {
		w.create(peerDeployment("peer"))
		w.addBases(0, 1)
		w.start("one")
		w.react()
		w.start("two")
		w.react()

		w.cutLeases.Store(true)
		w.pass(20 * time.Second)
		w.addBases(1, 3)
		w.react()
		w.expect("while no controller can lead")

		w.cutLeases.Store(false)
		w.pass(20 * time.Second)
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
			inBubble(t, func(w *world) {
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
				w.pass(900 * time.Millisecond)
				w.expect("after a failure", tt.want...)
			})
		})
	}
}
