package vnode

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

const (
	identity = "a"
	nodeName = "vnode.a"
)

// fixture is a Reconciler with a clock that the test moves, over an API that lists its writes.
type fixture struct {
	*Reconciler
	api    *fake.Clientset
	clock  *clocktesting.FakeClock
	events []string // owned, lost, gone
}

func newFixture(t *testing.T, opts Options, api *fake.Clientset) *fixture {
	t.Helper()
	s := &fixture{api: api, clock: clocktesting.NewFakeClock(noon)}
	registry := base.NewRegistry(base.Options{Clock: s.clock})
	opts.Env, opts.Clock = "dev", s.clock
	opts.Requested = func(string) int64 { return 0 }
	opts.Owned = func(string, string) { s.events = append(s.events, "owned") }
	opts.Lost = func(string, string) { s.events = append(s.events, "lost") }
	opts.Gone = func(context.Context, string, string) error { s.events = append(s.events, "gone"); return nil }
	// The lister stays empty, as an informer that has not heard yet.
	lister := informers.NewSharedInformerFactory(api, 0).Core().V1().Nodes().Lister()
	s.Reconciler = New(opts, api, lister, registry)
	return s
}

func (s *fixture) hear() {
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}
	s.registry.Heard(from, arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", HostName: "base-0", Active: true})
	s.registry.SetHealth(from, arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 60 << 20})
}

func (s *fixture) reconcileOnce(t *testing.T) time.Duration {
	t.Helper()
	wait, err := s.reconcile(t.Context(), identity)
	if err != nil {
		t.Fatalf("reconcile: %v", err)
	}
	return wait
}

// writes lists the writes since the last call, as verb and resource.
func (s *fixture) writes() (w []string) {
	for _, a := range s.api.Actions() {
		if a.GetVerb() == "get" || a.GetVerb() == "list" || a.GetVerb() == "watch" {
			continue
		}
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		w = append(w, a.GetVerb()+" "+resource)
	}
	s.api.ClearActions()
	return w
}

func (s *fixture) wantWrites(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.writes()); diff != "" {
		t.Errorf("writes %s (-want +got):\n%s", when, diff)
	}
}

func TestABaseBecomesANode(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, fake.NewClientset())
	s.hear()
	wait := s.reconcileOnce(t)
	s.wantWrites(t, "for a new base", "create leases", "create nodes")
	if wait != 10*time.Second {
		t.Errorf("looks again after %s, want a quarter of the lease", wait)
	}
	if !s.Owns(identity) || !slices.Equal(s.events, []string{"owned"}) {
		t.Errorf("owned: %t, events %v", s.Owns(identity), s.events)
	}
	s.reconcileOnce(t)
	s.wantWrites(t, "when nothing changed")
	s.clock.Step(10 * time.Second)
	s.reconcileOnce(t)
	s.wantWrites(t, "when the lease is due: it and nothing else", "update leases")

	s.registry.SetHealth(tunnel.Origin{Identity: identity}, arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 61 << 20})
	s.reconcileOnce(t)
	s.wantWrites(t, "when the metaspace grew shortly after a write")
	s.clock.Step(20 * time.Second)
	s.reconcileOnce(t)
	s.wantWrites(t, "half a minute after that write", "update leases", "update nodes/status")
	s.registry.SetHealth(tunnel.Origin{Identity: identity}, arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 250 << 20})
	s.reconcileOnce(t)
	s.wantWrites(t, "when the metaspace is nearly full, at once", "update nodes/status")
}

func TestANewNodeWaitsForItsFirstHealth(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, fake.NewClientset())
	s.registry.Heard(tunnel.Origin{Identity: identity}, arklet.Heartbeat{Active: true})
	if wait := s.reconcileOnce(t); wait != firstHealth {
		t.Errorf("waits %s, want %s", wait, firstHealth)
	}
	s.wantWrites(t, "before the first health", "create leases")
	s.clock.Step(firstHealth)
	s.reconcileOnce(t)
	s.wantWrites(t, "of a base that does not tell its health", "create nodes")
}

func TestASilentBaseTurnsUnknownAndGoes(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, fake.NewClientset())
	s.hear()
	s.reconcileOnce(t)
	s.writes()
	s.clock.Step(26 * time.Second)
	s.registry.Sweep()
	s.reconcileOnce(t)
	s.wantWrites(t, "at 26 s of silence", "update leases", "update nodes/status")
	n, err := s.api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Status.Conditions[0]; got.Type != corev1.NodeReady || got.Status != corev1.ConditionUnknown {
		t.Errorf("condition %s is %s", got.Type, got.Status)
	}
	s.writes()
	s.clock.Step(34 * time.Second)
	s.registry.Sweep()
	s.reconcileOnce(t)
	s.wantWrites(t, "at 60 s of silence", "delete nodes", "delete leases")
	if !slices.Equal(s.events, []string{"owned", "gone", "lost"}) {
		t.Errorf("events %v: its Pods go before its Node", s.events)
	}
}

func TestANodeThatSomebodyDeletedIsMadeAnew(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, fake.NewClientset())
	s.hear()
	s.reconcileOnce(t)
	if err := s.api.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.writes()
	s.reconcileOnce(t)
	s.wantWrites(t, "after kubectl delete node", "create nodes")
}

func TestTaintsThatSomebodyRemovedComeBackAndOthersStay(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, fake.NewClientset())
	s.hear()
	s.reconcileOnce(t)
	nodes := s.api.CoreV1().Nodes()
	n, err := nodes.Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	n.Spec.Taints = []corev1.Taint{theirs}
	if _, err := nodes.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.states[identity].node = n
	s.reconcileOnce(t)
	n, err = nodes.Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append([]corev1.Taint{theirs}, settings.Taints()...), n.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// leaseAPI refuses a write of a Lease that is based on an older one, as the API server does and the
// fake clientset does not.
func leaseAPI() *fake.Clientset {
	api := fake.NewClientset()
	api.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		update := a.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		stored, err := api.Tracker().Get(a.GetResource(), a.GetNamespace(), update.Name)
		if err != nil {
			return true, nil, err
		}
		if ptr.Deref(stored.(*coordinationv1.Lease).Spec.LeaseTransitions, 0) > ptr.Deref(update.Spec.LeaseTransitions, 0) {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), update.Name, errors.New("the object has been modified"))
		}
		return false, nil, nil
	})
	return api
}

func TestLeases(t *testing.T) {
	api := leaseAPI()
	first := newFixture(t, Options{Holder: "first", Cluster: true}, api)
	second := newFixture(t, Options{Holder: "second", Cluster: true}, api)
	start := func(s *fixture) { // past the workload delay
		s.hear()
		s.clock.Step(s.reconcileOnce(t))
		s.reconcileOnce(t)
	}
	start(first)
	start(second)
	if !first.Owns(identity) || second.Owns(identity) {
		t.Fatalf("first owns: %t, second owns: %t", first.Owns(identity), second.Owns(identity))
	}
	// first dies; its lease runs out
	second.clock.Step(41 * time.Second)
	start(second)
	if !second.Owns(identity) {
		t.Fatal("the second controller did not take over after the lease expired")
	}
	// first was only paused: it finds out at its next renewal
	first.clock.Step(45 * time.Second)
	first.hear()
	first.reconcileOnce(t)
	if first.Owns(identity) || !slices.Equal(first.events, []string{"owned", "lost"}) {
		t.Errorf("first owns: %t, events %v", first.Owns(identity), first.events)
	}
}

func TestWhatABaseSaysDoesNotShortenTheWorkloadDelay(t *testing.T) {
	s := newFixture(t, Options{Holder: "me", Cluster: true}, leaseAPI())
	s.hear()
	wait := s.reconcileOnce(t)
	s.clock.Step(wait / 2)
	s.hear()
	rest := s.reconcileOnce(t)
	s.wantWrites(t, "before the delay is over")
	if diff := cmp.Diff(wait-wait/2, rest); diff != "" {
		t.Errorf("rest of the delay (-want +got):\n%s", diff)
	}
	s.clock.Step(rest)
	s.reconcileOnce(t)
	s.wantWrites(t, "after it", "create leases", "create nodes")
}

func TestARestartedSingleControllerTakesItsBasesAtOnce(t *testing.T) {
	api := leaseAPI()
	before := newFixture(t, Options{Holder: "random-1"}, api)
	before.hear()
	before.reconcileOnce(t)
	after := newFixture(t, Options{Holder: "random-2"}, api)
	after.hear()
	after.reconcileOnce(t)
	if !after.Owns(identity) {
		t.Error("a restarted controller with another CLIENT_ID does not serve its bases")
	}
	// Two that are single by mistake do not fight: the first one steps back.
	before.clock.Step(10 * time.Second)
	before.hear()
	before.reconcileOnce(t)
	if before.Owns(identity) {
		t.Error("the first controller holds on to a base that another one took")
	}
}

func TestARenewalThatFailsForAWholeLeaseIsALoss(t *testing.T) {
	api := fake.NewClientset()
	s := newFixture(t, Options{Holder: "me"}, api)
	s.hear()
	s.reconcileOnce(t)
	api.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server is away")
	})
	s.clock.Step(20 * time.Second)
	s.hear()
	if _, err := s.reconcile(t.Context(), identity); err == nil || !s.Owns(identity) {
		t.Fatalf("after 20 s: error %v, owned %t", err, s.Owns(identity))
	}
	s.clock.Step(21 * time.Second)
	s.hear()
	if _, err := s.reconcile(t.Context(), identity); err == nil || s.Owns(identity) {
		t.Errorf("after 41 s: error %v, owned %t", err, s.Owns(identity))
	}
}
