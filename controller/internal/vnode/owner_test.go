package vnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// newFixturePair returns two controllers that share the bases and have the same clock. The first controller serves the
// base.
func newFixturePair(t *testing.T) (first, second *fixture) {
	t.Helper()
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	first = newFixture(t, Options{Holder: "first", Cluster: true, Clock: clock}, api)
	second = newFixture(t, Options{Holder: "second", Cluster: true, Clock: clock}, api)
	first.heartbeat()
	first.reconcileFor(t, time.Second)
	second.heartbeat()
	second.reconcileFor(t, time.Second)
	if !first.Owns(identity) || second.Owns(identity) {
		t.Fatalf("first serves the base: %t, second: %t", first.Owns(identity), second.Owns(identity))
	}
	return first, second
}

// holder returns the holder and the fencing number in the annotations of the Node.
func (s *fixture) holder(t *testing.T) string {
	t.Helper()
	n := s.liveNode(t)
	return n.Annotations[labels.Holder] + " " + n.Annotations[labels.Fence]
}

func TestBaseOfKilledControllerIsTakenOver(t *testing.T) {
	first, second := newFixturePair(t)
	first.cut.Store(true) // killed
	advance(t, 14*time.Second, second)
	second.heartbeat()
	second.reconcileOnce(t)
	if second.Owns(identity) {
		t.Fatal("a base was taken 14 s after its controller was last seen")
	}
	advance(t, time.Second, second)
	second.reconcileFor(t, time.Second)
	if !second.Owns(identity) {
		t.Fatal("the base is not taken within 16 s")
	}
	if got := second.holder(t); got != "second 2" {
		t.Errorf("the holder of the Node is %q", got)
	}
	// The first controller was only suspended. It must stop acting before it does anything.
	if first.MayAct() {
		t.Error("a controller that could not renew acts")
	}
	first.checkActing()
	if first.Owns(identity) || !slices.Equal(first.events, []string{"owned", "lost"}) {
		t.Errorf("the first controller serves the base: %t, events %v", first.Owns(identity), first.events)
	}
	first.cut.Store(false)
	first.runTasksOnce(t)
	first.heartbeat()
	for range 3 {
		first.reconcileFor(t, time.Second)
	}
	if first.Owns(identity) || first.holder(t) != "second 2" {
		t.Errorf("the first controller serves the base again: %t, the holder of the Node is %q", first.Owns(identity),
			first.holder(t))
	}
}

// TestControllerStopsActingBeforeLeaseExpires checks that a controller that cannot renew its Lease stops acting
// before another controller may take over its bases.
func TestControllerStopsActingBeforeLeaseExpires(t *testing.T) {
	s := newServing(t, newAPI())
	s.cut.Store(true)
	advance(t, 11*time.Second, s)
	if !s.MayAct() || !s.Owns(identity) {
		t.Fatal("it gave up too soon")
	}
	advance(t, time.Second, s)
	if s.MayAct() || s.Owns(identity) {
		t.Errorf("12 s after the last renewal: acting %t, serves the base %t", s.MayAct(), s.Owns(identity))
	}
	s.writes()
	s.reconcileOnce(t)
	s.wantWrites(t, "while it may not act")
	s.cut.Store(false)
	s.runTasksOnce(t)
	s.reconcileOnce(t)
	if got := s.holder(t); !s.Owns(identity) || got != "me 2" {
		t.Errorf("after the next renewal: serves the base %t, holder %q; want it to take the base again",
			s.Owns(identity), got)
	}
}

// TestBaseThatStopsWhileNotActingIsRemoved stops a base while this controller may not act. The controller must remove
// the base once it may act again.
func TestBaseThatStopsWhileNotActingIsRemoved(t *testing.T) {
	for name, goes := range map[string]func(*fixture){
		"misses heartbeats": func(*fixture) {},
		"reports its end": func(s *fixture) {
			_, _ = s.registry.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity},
				arklet.Heartbeat{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServing(t, newAPI())
			s.cut.Store(true)
			advance(t, 20*time.Second, s)
			goes(s)
			s.reconcileOnce(t)
			advance(t, 100*time.Second, s)
			s.reconcileOnce(t)
			s.liveNode(t)
			s.cut.Store(false)
			s.runTasksOnce(t)
			s.reconcileOnce(t)
			advance(t, 2*time.Second, s)
			s.reconcileOnce(t)
			if _, err := s.api.CoreV1().Nodes().Get(t.Context(), nodeName,
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Node was not deleted: %v", err)
			}
			if !slices.Contains(s.events, "gone") {
				t.Errorf("events %q, want the deletion of its Pods", s.events)
			}
		})
	}
}

// TestLeaseIsValidFromStartOfRenewal checks that the Lease duration is counted from the start of the renewal, because
// other controllers may observe the renewed Lease that early.
func TestLeaseIsValidFromStartOfRenewal(t *testing.T) {
	api := newAPI()
	s := newFixture(t, Options{Holder: "me"}, api)
	api.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.clock.Step(11 * time.Second)
		return false, nil, nil
	})
	if err := s.ownLease.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(time.Second)
	if s.MayAct() {
		t.Error("it acts 12 s after the renewal began")
	}
}

// TestClockOfOtherControllerIsIgnored checks that a Lease is treated as valid while it keeps changing, regardless of
// the clock of the other controller.
func TestClockOfOtherControllerIsIgnored(t *testing.T) {
	first, second := newFixturePair(t)
	stamp := func(s *fixture, at time.Time) {
		leases := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		l, err := leases.Get(t.Context(), first.ownLease.leaseName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(at))
		l, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.HandlePeerLease(l, false)
	}
	for i := range 30 {
		advance(t, time.Second, second)
		stamp(second, noon.Add(-time.Hour).Add(time.Duration(i)))
		second.heartbeat()
		second.reconcileOnce(t)
	}
	if second.Owns(identity) {
		t.Error("a controller whose clock is an hour behind was taken for dead")
	}
}

// TestLateWatchDoesNotCauseTakeover checks that a controller reads the Lease of another controller before it takes
// over the bases of that controller, because the Lease watch may be late.
func TestLateWatchDoesNotCauseTakeover(t *testing.T) {
	first, second := newFixturePair(t)
	for range 20 { // the second controller does not observe the renewals
		second.clock.Step(time.Second)
		first.runTasksOnce(t)
		if err := second.ownLease.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	second.heartbeat()
	second.reconcileFor(t, time.Second)
	if second.Owns(identity) {
		t.Error("a base was taken from a controller that renews its lease")
	}
}

// TestLateResponseDoesNotCauseTakeover restarts the other controller, so that a watch event with its new Lease
// arrives before the older NotFound response to a read. The NotFound response must not cause a takeover.
func TestLateResponseDoesNotCauseTakeover(t *testing.T) {
	first, second := newFixturePair(t)
	again := first.ownLease.lease.DeepCopy()
	again.ResourceVersion += "1"
	second.api.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		second.HandlePeerLease(again, false)
		return true, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), first.ownLease.leaseName())
	})
	if err := second.ownLease.confirm(t.Context(), first.opts.Holder); err != nil {
		t.Fatal(err)
	}
	if second.ownLease.remainingFor(first.opts.Holder) <= 0 {
		t.Error("a controller whose Lease was seen after it was read to be gone counts as gone")
	}
}

func TestStoppedControllerReleasesItsBases(t *testing.T) {
	first, second := newFixturePair(t)
	lease, err := second.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(),
		first.ownLease.leaseName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.ownLease.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first.MayAct() {
		t.Error("it acts after it gave its lease up")
	}
	second.HandlePeerLease(lease, true)
	second.reconcileFor(t, time.Second)
	if !second.Owns(identity) {
		t.Error("the other one does not serve the base")
	}
}

// TestLaterControllerTakesReleasedBasesImmediately simulates a rollout with one replica: the next controller starts
// after the previous one has stopped and released its Lease. The next controller has never observed that Lease, and
// must take over the bases without waiting.
func TestLaterControllerTakesReleasedBasesImmediately(t *testing.T) {
	first, _ := newFixturePair(t)
	if err := first.ownLease.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	later := newFixture(t, Options{Holder: "later", Cluster: true, Clock: first.clock}, first.api)
	later.heartbeat()
	later.reconcileFor(t, time.Second)
	if !later.Owns(identity) {
		t.Error("it waits for a controller that ended before it began")
	}
}

// TestControllerReleasesLeaseAfterFailedRenewal stops the controller during a renewal, whose result is then unknown.
// The controller must release its Lease nevertheless.
func TestControllerReleasesLeaseAfterFailedRenewal(t *testing.T) {
	first, _ := newFixturePair(t)
	first.api.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, context.Canceled
	})
	if err := first.ownLease.renew(t.Context()); err == nil {
		t.Fatal("the renewal did not fail")
	}
	if err := first.ownLease.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := first.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), first.ownLease.leaseName(),
		metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("Lease: %v, want it deleted", err)
	}
}

// TestStoppedControllerKeepsLeaseOfSuccessor simulates a rollout that starts the next controller before it stops the
// previous one. Both controllers have the same CLIENT_ID. The previous controller must not delete the Lease of the
// next one.
func TestStoppedControllerKeepsLeaseOfSuccessor(t *testing.T) {
	first, _ := newFixturePair(t)
	successor := newFixture(t, Options{Holder: "first", Cluster: true, Clock: first.clock}, first.api)
	if err := successor.ownLease.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.ownLease.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := first.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(),
		first.ownLease.leaseName(),
		metav1.GetOptions{}); err != nil {
		t.Errorf("the Lease of the successor: %v", err)
	}
}

func TestControllerWithoutTunnelHandsOverBases(t *testing.T) {
	first, second := newFixturePair(t)
	first.down.Store(true)
	both := func(d time.Duration) {
		t.Helper()
		for range d / time.Second {
			advance(t, time.Second, first, second)
			second.heartbeat()
			first.reconcileOnce(t)
			second.reconcileOnce(t)
		}
	}
	both(14 * time.Second)
	if !first.Owns(identity) {
		t.Fatal("the base was given away too soon")
	}
	both(3 * time.Second)
	second.reconcileFor(t, time.Second)
	if first.Owns(identity) || !second.Owns(identity) || second.holder(t) != "second 3" {
		t.Errorf("first controller serves the base: %t, second: %t, holder of the Node %q", first.Owns(identity),
			second.Owns(identity), second.holder(t))
	}
}

func TestNoHandOverIfTunnelIsDownInBothControllers(t *testing.T) {
	first, second := newFixturePair(t)
	first.down.Store(true)
	second.down.Store(true)
	for range 60 {
		advance(t, time.Second, first, second)
		first.reconcileOnce(t)
		second.reconcileOnce(t)
	}
	if !first.Owns(identity) || second.Owns(identity) {
		t.Errorf("first serves the base: %t, second: %t", first.Owns(identity), second.Owns(identity))
	}
}

func TestMessagesDoNotShortenWorkloadDelay(t *testing.T) {
	s := newFixture(t, Options{Holder: "me", Cluster: true}, newAPI())
	s.heartbeat()
	wait := s.reconcileOnce(t)
	s.clock.Step(wait / 2)
	s.heartbeat()
	rest := s.reconcileOnce(t)
	s.wantWrites(t, "before the delay is over")
	if diff := cmp.Diff(wait-wait/2, rest); diff != "" {
		t.Errorf("remaining delay (-want +got):\n%s", diff)
	}
	s.clock.Step(rest)
	s.reconcileOnce(t)
	s.wantWrites(t, "after it", "create nodes", "create leases")
}

// logTo returns a logger that writes to a buffer.
func logTo(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func TestBasesOfRunningControllerAreNotTakenOver(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprintf("IS_CLUSTER=%t", cluster), func(t *testing.T) {
			api, clock := newAPI(), clocktesting.NewFakeClock(noon)
			first := newFixture(t, Options{Holder: "first", Clock: clock}, api)
			first.heartbeat()
			first.reconcileOnce(t)
			var logged bytes.Buffer
			second := newFixture(t, Options{Holder: "second", Cluster: cluster, Clock: clock, Logger: logTo(&logged)},
				api)
			for range 60 {
				advance(t, time.Second, first, second)
				first.heartbeat()
				first.reconcileOnce(t)
				second.heartbeat()
				second.reconcileOnce(t)
			}
			if first.holder(t) != "first 1" || !first.Owns(identity) || second.Owns(identity) {
				t.Fatalf("holder of the Node %q, first controller serves the base: %t, second: %t", first.holder(t),
					first.Owns(identity), second.Owns(identity))
			}
			if diff := cmp.Diff([]string(nil), second.events); diff != "" {
				t.Errorf("events of the second controller (-want +got):\n%s", diff)
			}
			warnings := strings.Count(logged.String(), "controllers=first")
			if want := map[bool]int{false: 1, true: 0}[cluster]; warnings != want {
				t.Errorf("%d warnings, want %d with the other controller:\n%s", warnings, want, &logged)
			}
			if second.OtherControllers() != 1 {
				t.Errorf("%d other controllers, want 1", second.OtherControllers())
			}
			first.cut.Store(true) // killed
			advance(t, 11*time.Second, second)
			second.heartbeat()
			second.reconcileOnce(t)
			if second.Owns(identity) {
				t.Fatal("the base is taken before the Lease of its controller has expired")
			}
			second.takeOver(t)
			if second.OtherControllers() != 0 {
				t.Errorf("%d other controllers after the first was killed, want 0", second.OtherControllers())
			}
		})
	}
}

// TestLeaseIsObservedForItsDuration checks that the Lease of a killed controller is observed for the whole Lease
// duration before a takeover, regardless of its renew time.
func TestLeaseIsObservedForItsDuration(t *testing.T) {
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	killed := newFixture(t, Options{Holder: "killed", Clock: clock}, api)
	killed.heartbeat()
	killed.reconcileOnce(t)
	clock.Step(time.Hour)
	var logged bytes.Buffer
	s := newFixture(t, Options{Holder: "me", Clock: clock, Logger: logTo(&logged)}, api)
	s.heartbeat()
	s.reconcileOnce(t)
	advance(t, 14*time.Second, s)
	s.heartbeat()
	s.reconcileOnce(t)
	if s.Owns(identity) {
		t.Fatal("the base is taken 14 s after the Lease was first seen")
	}
	advance(t, time.Second, s)
	s.heartbeat()
	s.reconcileOnce(t)
	if !s.Owns(identity) {
		t.Error("the base is not taken 15 s after the Lease was first seen")
	}
	if strings.Contains(logged.String(), "another controller") {
		t.Errorf("a controller that does not renew its Lease is reported:\n%s", &logged)
	}
}

// TestLeaseWithInvalidDurationExpires checks that a Lease with a duration of many years expires after MaxLease.
func TestLeaseWithInvalidDurationExpires(t *testing.T) {
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	killed := newFixture(t, Options{Holder: "killed", Clock: clock}, api)
	killed.heartbeat()
	killed.reconcileOnce(t)
	leases := api.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	l, err := leases.Get(t.Context(), killed.ownLease.leaseName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.Spec.LeaseDurationSeconds = ptr.To[int32](math.MaxInt32)
	if _, err := leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := newFixture(t, Options{Holder: "me", Clock: clock}, api)
	s.heartbeat()
	s.reconcileOnce(t)
	if s.Owns(identity) {
		t.Fatal("the base is taken before the Lease expires")
	}
	for range MaxLease / (10 * time.Second) {
		clock.Step(10 * time.Second)
		if err := s.ownLease.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.heartbeat()
	s.reconcileOnce(t)
	if !s.Owns(identity) {
		t.Errorf("the base is not taken over after %s", MaxLease)
	}
}

// TestNodeOfOtherControllerIsDeleted checks that if a user deletes a Node, only the controller that serves the base
// deletes the Pods of the Node.
func TestNodeOfOtherControllerIsDeleted(t *testing.T) {
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	first := newFixture(t, Options{Holder: "first", Clock: clock}, api)
	first.heartbeat()
	first.reconcileOnce(t)
	second := newFixture(t, Options{Holder: "second", Clock: clock}, api)
	second.heartbeat()
	second.reconcileOnce(t)
	advance(t, 5*time.Second, first, second)
	first.deleteNode(t)
	second.sync(t)
	second.reconcileOnce(t)
	advance(t, 20*time.Second, first, second) // the second controller gets no heartbeats
	second.reconcileOnce(t)
	if knows := second.state(identity) != nil; knows || slices.Contains(second.events, "gone") {
		t.Errorf("events of the second controller %q; base registered: %t", second.events, knows)
	}
}

func TestNodeOfOtherEnvironmentIsNotChanged(t *testing.T) {
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	theirs := newFixture(t, Options{Settings: Settings{Env: "prod"}, Holder: "theirs", Clock: clock}, api)
	theirs.heartbeat()
	theirs.reconcileOnce(t)
	s := newFixture(t, Options{Holder: "me", Clock: clock}, api)
	s.heartbeat()
	s.reconcileOnce(t)
	s.writes()
	for range 40 {
		advance(t, time.Second, s)
		s.heartbeat()
		s.reconcileOnce(t)
	}
	s.wantWrites(t, "to a Node of another environment")
	if s.Owns(identity) || s.holder(t) != "theirs 1" {
		t.Errorf("serves the base: %t, holder of the Node %q", s.Owns(identity), s.holder(t))
	}
	s.wantEvent(t, "ForeignEnvironment", `"dev"`, `"prod"`)
}

// TestSameClientIDInOtherEnvironmentKeepsNodes runs two controllers in different environments that have the same
// CLIENT_ID by mistake. Neither controller may take over the Nodes of the other controller while that controller is
// running.
func TestSameClientIDInOtherEnvironmentKeepsNodes(t *testing.T) {
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	theirs := newFixture(t, Options{Settings: Settings{Env: "prod"}, Holder: "me", Clock: clock}, api)
	theirs.heartbeat()
	theirs.reconcileOnce(t)
	s := newFixture(t, Options{Holder: "me", Clock: clock}, api)
	s.heartbeat()
	s.reconcileOnce(t)
	for range 60 {
		advance(t, time.Second, theirs, s)
		theirs.heartbeat()
		theirs.reconcileOnce(t)
		s.heartbeat()
		s.reconcileOnce(t)
	}
	if n := theirs.liveNode(t); s.Owns(identity) || !theirs.Owns(identity) || n.Labels[labels.Env] != "prod" ||
		theirs.holder(t) != "me 1" {
		t.Errorf("served by prod: %t, by dev: %t, environment %q, holder %q", theirs.Owns(identity), s.Owns(identity),
			n.Labels[labels.Env], theirs.holder(t))
	}
	theirs.cut.Store(true) // killed, without deleting its Lease
	for range 16 {
		advance(t, time.Second, s)
		s.heartbeat()
		s.reconcileOnce(t)
	}
	if n := s.liveNode(t); !s.Owns(identity) || n.Labels[labels.Env] != "dev" {
		t.Errorf("after the other controller was killed: serves the base %t, environment %q", s.Owns(identity),
			n.Labels[labels.Env])
	}
}

func TestControllerKeepsNodesAfterChangeOfEnvironment(t *testing.T) {
	api := newAPI()
	before := newFixture(t, Options{Settings: Settings{Env: "old"}, Holder: "me"}, api)
	before.heartbeat()
	before.reconcileOnce(t)
	if err := before.ownLease.release(t.Context()); err != nil { // stopped
		t.Fatal(err)
	}
	s := newServing(t, api)
	s.reconcileOnce(t)
	n := s.liveNode(t)
	if diff := cmp.Diff(settings.Taints(), n.Spec.Taints); diff != "" || n.Labels[labels.Env] != "dev" ||
		!s.Owns(identity) {
		t.Errorf("served: %t, environment %q, taints (-want +got):\n%s", s.Owns(identity), n.Labels[labels.Env], diff)
	}
}

// TestLeaseOfOtherEnvironmentPreventsNode deletes a Node whose Lease is still valid, as a user would. Until the Lease
// expires, only the controller of the Node's environment may create the Node again.
func TestLeaseOfOtherEnvironmentPreventsNode(t *testing.T) {
	api, clock := newAPI(), clocktesting.NewFakeClock(noon)
	theirs := newFixture(t, Options{Settings: Settings{Env: "prod"}, Holder: "theirs", Clock: clock}, api)
	theirs.heartbeat()
	theirs.reconcileOnce(t)
	theirs.deleteNode(t)
	s := newFixture(t, Options{Holder: "me", Clock: clock}, api)
	s.heartbeat()
	s.writes()
	for range 39 {
		advance(t, time.Second, s)
		s.heartbeat()
		s.reconcileOnce(t)
	}
	s.wantWrites(t, "while the lease of another environment holds")
	for range 3 {
		advance(t, time.Second, s)
		s.heartbeat()
		s.reconcileOnce(t)
	}
	if !s.Owns(identity) {
		t.Error("the base is not served after the Lease has expired")
	}
}

// TestTwoIdentitiesDoNotShareNode checks that two bases do not share one Node if their identities result in the same
// Node name. This can happen because the hash in Node names has only 32 bits.
func TestTwoIdentitiesDoNotShareNode(t *testing.T) {
	taken := Name("a b")
	other := strings.TrimPrefix(taken, namePrefix)
	if Name(other) != taken {
		t.Fatalf("%q results in %q, and %q in %q", "a b", taken, other, Name(other))
	}
	api := newAPI(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: taken, UID: "theirs", ResourceVersion: "1",
		Annotations: map[string]string{labels.Identity: "a b", labels.Holder: "me", labels.Fence: "1"},
		Labels:      map[string]string{labels.Component: labels.Vnode, labels.Env: "dev"},
	}})
	s := newFixture(t, Options{Holder: "me"}, api)
	s.writes()
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: other}
	for range 40 {
		advance(t, time.Second, s)
		if _, err := s.registry.HandleHeartbeat(from, arklet.Heartbeat{Name: "base", Active: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.reconcile(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.registry.HandleHeartbeat(from, arklet.Heartbeat{}); err != nil { // the base ends
		t.Fatal(err)
	}
	if _, err := s.reconcile(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s.wantWrites(t, "to the Node of another base")
	if s.Owns(other) {
		t.Error("a base is served by the Node of another")
	}
	s.wantEvent(t, "SameNodeName", `"`+other+`"`, `"a b"`)
}

// olderNode returns a Node as ModuleController V2 creates it, and the Lease of the Node.
func olderNode(renewed time.Time) (*corev1.Node, *coordinationv1.Lease) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "vnode.a.dev", UID: "theirs", ResourceVersion: "1",
			Labels: map[string]string{labels.Component: labels.Vnode, labels.Env: "dev"}}},
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "vnode.a.dev", Namespace: corev1.NamespaceNodeLease,
				ResourceVersion: "1"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("existing"), LeaseDurationSeconds: ptr.To[int32](40),
				RenewTime: ptr.To(metav1.NewMicroTime(renewed))},
		}
}

func TestNodeOfUpstreamIsTakenOverWhenLeaseExpires(t *testing.T) {
	node, lease := olderNode(noon.Add(-time.Hour)) // its clock is not used
	api := newAPI(node, lease)
	s := newFixture(t, Options{Holder: "me"}, api)
	if err := s.cache.Add(node); err != nil {
		t.Fatal(err)
	}
	for range 39 {
		s.heartbeat()
		s.reconcileOnce(t)
		advance(t, time.Second, s)
	}
	s.wantWrites(t, "while the existing controller may be there")
	s.wantEvent(t, "WaitingForOtherController")
	advance(t, time.Second, s)
	s.heartbeat()
	s.reconcileOnce(t)
	s.wantWrites(t, "when it is gone", "update nodes/status", "update nodes", "update leases")
	n, err := api.CoreV1().Nodes().Get(t.Context(), "vnode.a.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Owns(identity) || n.UID != "theirs" || n.Annotations[labels.Holder] != "me" ||
		n.Annotations[labels.Identity] != identity {
		t.Errorf("served: %t, UID %s, annotations %v", s.Owns(identity), n.UID, n.Annotations)
	}
}

func TestNodeThatUpstreamServesIsNotChanged(t *testing.T) {
	node, lease := olderNode(noon)
	api := newAPI(node, lease)
	s := newFixture(t, Options{Holder: "me"}, api)
	if err := s.cache.Add(node); err != nil {
		t.Fatal(err)
	}
	leases := api.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for i := range 120 {
		s.heartbeat()
		s.reconcileOnce(t)
		advance(t, time.Second, s)
		if i%10 == 0 {
			l, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.Owns(identity) {
		t.Error("a base is served that another controller serves")
	}
}

// TestSecondNodeOfUpstreamIsDeleted checks that if ModuleController V2 and this controller have both created a Node
// for the base, the Node of ModuleController V2 is deleted with its Pods.
func TestSecondNodeOfUpstreamIsDeleted(t *testing.T) {
	node, lease := olderNode(noon)
	on := func(name, nodeName string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: corev1.PodSpec{NodeName: nodeName}}
	}
	api := newAPI(on("theirs", "vnode.a.dev"), on("ours", nodeName))
	s := newServing(t, api)
	for resource, o := range map[string]runtime.Object{"nodes": node, "leases": lease} {
		gv := corev1.SchemeGroupVersion
		if resource == "leases" {
			gv = coordinationv1.SchemeGroupVersion
		}
		if err := api.Tracker().Create(gv.WithResource(resource), o, o.(metav1.Object).GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	s.sync(t)
	s.writes()
	for range 39 {
		s.heartbeat()
		s.reconcileOnce(t)
		advance(t, time.Second, s)
	}
	s.wantWrites(t, "while the existing controller may be there", "update leases")
	advance(t, time.Second, s)
	s.heartbeat()
	s.reconcileOnce(t)
	s.wantWrites(t, "when it is gone", "update leases", "delete nodes", "delete pods", "delete leases")
	left, err := api.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name != "ours" || !s.Owns(identity) {
		t.Errorf("Pods left: %v, base served: %t", left.Items, s.Owns(identity))
	}
}

func TestBlockedRenewalDoesNotBlockGuard(t *testing.T) {
	api := newAPI()
	s := newServing(t, api)
	release := make(chan struct{})
	hangs := make(chan struct{})
	api.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(hangs)
		<-release
		return true, nil, errors.New("the API server does not answer")
	})
	done := make(chan error)
	go func() { done <- s.ownLease.renew(t.Context()) }()
	<-hangs
	s.clock.Step(12 * time.Second)
	s.checkActing()
	if s.Owns(identity) {
		t.Error("the guard waits for the renewal")
	}
	close(release)
	if err := <-done; err == nil {
		t.Error("the renewal succeeded")
	}
}
