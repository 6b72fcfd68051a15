package vnode

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/work"
	"github.com/koupleless/koupsandbox/controller/labels"
)

func TestNodeAndLeaseOfNewBase(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	s.heartbeat()
	wait := s.reconcileOnce(t)
	asked := 0
	for _, a := range s.api.Actions() {
		if a.Matches("get", "leases") && a.(clienttesting.GetAction).GetName() == nodeName {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the Lease of a new base was read %d times, want once", asked)
	}
	s.wantWrites(t, "for a new base", "create nodes", "create leases")
	if wait != 20*time.Second {
		t.Errorf("reconciles again after %s, want when the Lease of the Node is due", wait)
	}
	if !s.Owns(identity) || !slices.Equal(s.events, []string{"owned"}) {
		t.Errorf("owned: %t, events %v", s.Owns(identity), s.events)
	}
	if a := s.liveNode(t).Annotations; a[labels.Holder] != "me" || a[labels.Fence] != "1" {
		t.Errorf("holder %q, fence %q", a[labels.Holder], a[labels.Fence])
	}
	s.reconcileOnce(t)
	s.wantWrites(t, "when nothing changed")
	advance(t, 20*time.Second, s)
	s.heartbeat()
	s.reconcileOnce(t)
	s.wantWrites(t, "when the lease is due: it and nothing else", "update leases")
	lease, err := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), nodeName,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.ManagedFieldsEntry{{}}, lease.ManagedFields); diff != "" { // clears the managed fields
		t.Errorf("managed fields of a renewal (-want +got):\n%s", diff)
	}

	s.registry.SetHealth(tunnel.Origin{Identity: identity},
		arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 61 << 20})
	s.reconcileOnce(t)
	s.wantWrites(t, "when the metaspace grew")
	advance(t, 20*time.Second, s)
	s.reconcileOnce(t)
	s.wantWrites(t, "20 s later", "update leases")
	advance(t, 11*time.Second, s)
	s.reconcileOnce(t)
	s.wantWrites(t, "later than half a minute after it grew", "update nodes/status")
	s.registry.SetHealth(tunnel.Origin{Identity: identity},
		arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 250 << 20})
	s.reconcileOnce(t)
	s.wantWrites(t, "when the metaspace is nearly full, at once", "update nodes/status")
}

// TestStatusOfOtherComponentsIsKept checks that the controller keeps the resources and conditions that other
// components have written to the status of a Node, without additional writes.
func TestStatusOfOtherComponentsIsKept(t *testing.T) {
	s := newServing(t, newAPI())
	n := s.liveNode(t)
	slots := resource.MustParse("2")
	n.Status.Capacity["example.com/slots"], n.Status.Allocatable["example.com/slots"] = slots, slots
	deadlock := corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionFalse,
		Reason: "KernelHasNoDeadlock"}
	n.Status.Conditions = append([]corev1.NodeCondition{deadlock}, n.Status.Conditions...)
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	if _, err := s.api.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.sync(t)
	s.writes()
	s.reconcileOnce(t)
	s.wantWrites(t, "after a otherEnv write")
	s.registry.SetHealth(tunnel.Origin{Identity: identity},
		arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 250 << 20})
	s.reconcileOnce(t)
	s.wantWrites(t, "when the metaspace is nearly full", "update nodes/status")
	n = s.liveNode(t)
	capacity, allocatable := n.Status.Capacity["example.com/slots"], n.Status.Allocatable["example.com/slots"]
	if capacity.Cmp(slots) != 0 || allocatable.Cmp(slots) != 0 || conditionOf(n, deadlock.Type) != deadlock ||
		len(n.Status.Images) != 1 {
		t.Errorf("the status is %+v", n.Status)
	}
	if c := conditionOf(n, corev1.NodeMemoryPressure); c.Status != corev1.ConditionTrue {
		t.Errorf("the condition of the controller is %+v", c)
	}
	if disk := n.Status.Allocatable.StorageEphemeral(); disk.Value() < 1000<<40 {
		t.Errorf("%s of ephemeral storage", disk)
	}
}

// TestNewNodeHasNoNotReadyTaint checks that the controller removes the not-ready taint, which the API server adds to
// each new Node, if the base is Ready.
func TestNewNodeHasNoNotReadyTaint(t *testing.T) {
	api := newAPI()
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	evicting := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	api.PrependReactor("create", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		n := a.(clienttesting.CreateAction).GetObject().(*corev1.Node)
		n.Spec.Taints = append(n.Spec.Taints, notReady, evicting)
		return false, nil, nil
	})
	s := newServing(t, api)
	s.wantWrites(t, "for a new base", "create nodes", "update nodes", "create leases")
	n := s.liveNode(t)
	if slices.Contains(n.Spec.Taints, notReady) || !slices.Contains(n.Spec.Taints, evicting) || len(n.Spec.Taints) < 3 {
		t.Errorf("taints %v; want the taints of a base without the taint not-ready", n.Spec.Taints)
	}

	n.Spec.Taints = append(n.Spec.Taints, notReady)
	if _, err := s.api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.sync(t)
	s.writes()
	s.reconcileOnce(t)
	s.wantWrites(t, "when another client adds the taint later")
}

// TestNodeLeaseDuration checks that the Lease of a Node is valid for the configured time, and is renewed after half
// of this time.
func TestNodeLeaseDuration(t *testing.T) {
	s := newFixture(t, Options{Holder: "me", NodeLease: 2 * time.Minute}, newAPI())
	s.heartbeat()
	wait := s.reconcileOnce(t)
	lease, err := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), nodeName,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if good := *lease.Spec.LeaseDurationSeconds; good != 120 || wait != time.Minute {
		t.Errorf("the Lease is valid for %d s and renewed after %s, want 120 s and 1m", good, wait)
	}
}

// TestLeasesHavePriorityOverMemory queues more writes of Nodes than can run concurrently. Lease renewals must have
// priority over updates of memory.
func TestLeasesHavePriorityOverMemory(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	grow := func() {
		s.heartbeat()
		s.registry.SetHealth(tunnel.Origin{Identity: identity},
			arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 70 << 20})
		s.reconcileOnce(t)
	}
	s.heartbeat()
	s.reconcileOnce(t)
	grow()
	advance(t, 31*time.Second, s)
	for i := range workers + 1 {
		s.queue.Add(strconv.Itoa(i))
	}
	s.writes()
	grow()
	s.wantWrites(t, "while many wait", "update leases")
	s.queue = work.New(work.Options[string]{})
	grow()
	s.wantWrites(t, "when nobody waits", "update nodes/status")
}

func TestNewNodeWaitsForFirstHealth(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	_, _ = s.registry.HandleHeartbeat(tunnel.Origin{Identity: identity}, arklet.Heartbeat{Active: true})
	if wait := s.reconcileOnce(t); wait != firstHealth {
		t.Errorf("waits %s, want %s", wait, firstHealth)
	}
	s.wantWrites(t, "before the first health")
	s.clock.Step(firstHealth)
	s.reconcileOnce(t)
	s.wantWrites(t, "of a base that does not tell its health", "create nodes", "create leases")
}

func TestUnreachableBaseTurnsUnknownAndIsRemoved(t *testing.T) {
	s := newServing(t, newAPI())
	s.writes()
	advance(t, 26*time.Second, s)
	s.reconcileOnce(t)
	s.wantWrites(t, "26 s after the last heartbeat", "update nodes/status", "update leases")
	if got := conditionOf(s.liveNode(t), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
		t.Errorf("Ready is %s", got)
	}
	s.writes()
	advance(t, 34*time.Second, s)
	s.reconcileOnce(t)
	s.wantWrites(t, "60 s after the last heartbeat", "delete nodes", "delete leases")
	if diff := cmp.Diff([]string{"owned", "gone", "lost"}, s.events); diff != "" {
		t.Errorf("events; the Node must be deleted before its Pods (-want +got):\n%s", diff)
	}
}

// TestPodDeletionIsRepeatedAfterError checks that the controller repeats the deletion of the Pods of a removed base
// after a failure.
func TestPodDeletionIsRepeatedAfterError(t *testing.T) {
	s := newServing(t, newAPI())
	advance(t, 60*time.Second, s)
	s.goneErr = errors.New("try again")
	if _, err := s.reconcile(t.Context(), identity); err == nil {
		t.Error("no error")
	}
	s.sync(t)
	s.reconcileOnce(t)
	if diff := cmp.Diff([]string{"owned", "gone", "gone", "lost"}, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestBaseIsNotObservedWhileTunnelIsDown checks that while the tunnel is down, the Node stays Ready, its Lease is
// renewed, and exactly one Event is recorded.
func TestBaseIsNotObservedWhileTunnelIsDown(t *testing.T) {
	s := newServing(t, newAPI())
	s.writes()
	s.down.Store(true)
	var wrote []string
	for range 300 {
		advance(t, time.Second, s)
		s.reconcileOnce(t)
		wrote = append(wrote, s.writes()...)
	}
	renewals := strings.Count(strings.Join(wrote, "\n"), "update leases")
	if renewals != 15 || len(wrote) != renewals+1 {
		t.Errorf("writes in five minutes without a tunnel: %q, want 15 renewals and one of the Node", wrote)
	}
	n := s.liveNode(t)
	if ready, observed := conditionOf(n, corev1.NodeReady), conditionOf(n,
		api.ConditionObserved); ready.Status != "True" || observed.Status != "False" ||
		observed.Reason != string(base.TunnelDown) {
		t.Errorf("Ready %s, Observed %s %s", ready.Status, observed.Status, observed.Reason)
	}
	s.wantEvent(t)
	s.down.Store(false)
	s.heartbeat()
	s.reconcileOnce(t)
	if got := conditionOf(s.liveNode(t), api.ConditionObserved).Status; got != corev1.ConditionTrue {
		t.Errorf("Observed is %s after a message of the base", got)
	}
}

func TestDeletedNodeIsCreatedAgain(t *testing.T) {
	s := newServing(t, newAPI())
	s.deleteNode(t)
	s.sync(t)
	s.writes()
	s.reconcileOnce(t)
	s.wantWrites(t, "after kubectl delete node, before a message of the base")
	s.heartbeat()
	s.reconcileOnce(t)
	s.wantWrites(t, "when it speaks", "create nodes")
	if !slices.Equal(s.events, []string{"owned"}) {
		t.Errorf("events %v", s.events)
	}
}

// TestNodeDeletedBeforeWriteIsCreatedAgain deletes the Node between a read and a write of the controller, as a user
// could. The controller must create the Node again.
func TestNodeDeletedBeforeWriteIsCreatedAgain(t *testing.T) {
	s := newServing(t, newAPI())
	s.sync(t)
	// The status of the Node changes.
	_, _ = s.registry.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity},
		arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.2", HostName: "base-0", Active: true})
	s.deleteNode(t)
	if _, err := s.reconcile(t.Context(), identity); !apierrors.IsNotFound(err) {
		t.Fatalf("reconcile: %v; want a not found error", err)
	}
	s.sync(t)
	s.writes()
	s.reconcileOnce(t)
	s.reconcileOnce(t)
	s.wantWrites(t, "before a message of the base")
	s.heartbeat()
	s.reconcileOnce(t)
	s.wantWrites(t, "when it speaks", "create nodes")
}

func TestPodsAreDeletedIfNodeWasDeletedBefore(t *testing.T) {
	s := newServing(t, newAPI())
	advance(t, 60*time.Second, s)
	s.deleteNode(t)
	s.sync(t)
	s.writes()
	s.reconcileOnce(t)
	s.wantWrites(t, "of a base that is gone as its Node is", "delete leases")
	if diff := cmp.Diff([]string{"owned", "gone", "lost"}, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestDeletedNodeOfUnreachableBaseIsNotCreatedAgain deletes the Node of an unreachable base before the controller
// does, as a user could. The controller must not create the Node again.
func TestDeletedNodeOfUnreachableBaseIsNotCreatedAgain(t *testing.T) {
	s := newServing(t, newAPI())
	s.deleteNode(t)
	s.sync(t)
	s.writes()
	s.reconcileOnce(t)
	advance(t, 13*time.Second, s)
	s.reconcileOnce(t)
	s.wantWrites(t, "after kubectl delete node", "delete leases")
	if diff := cmp.Diff([]string{"owned", "gone", "lost"}, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestNodeDeletedDuringStartIsCreatedAgain deletes the Node after the controller has listed the Nodes, but before it
// reconciles the base. The controller must create the Node again.
func TestNodeDeletedDuringStartIsCreatedAgain(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	s.registry.Adopt(base.Info{Identity: identity, Name: "base", Tunnel: tunnel.MQTT}, time.Time{})
	s.heartbeat()
	s.reconcileOnce(t)
	advance(t, 5*time.Second, s)
	s.reconcileOnce(t)
	s.wantWrites(t, "of a base that has not spoken since")
	s.heartbeat()
	s.reconcileOnce(t)
	s.wantWrites(t, "when it speaks", "create nodes", "create leases")
}

func TestRemovedTaintsAreAddedAgain(t *testing.T) {
	s := newServing(t, newAPI())
	n := s.liveNode(t)
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	n.Spec.Taints = []corev1.Taint{theirs}
	if _, err := s.api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.sync(t)
	s.reconcileOnce(t)
	if diff := cmp.Diff(append([]corev1.Taint{theirs}, settings.Taints()...), s.liveNode(t).Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// TestRoleOfOldHostNameIsRemoved changes the host name of a base. The role label with the old host name must be
// removed, and role labels that other clients have added must stay.
func TestRoleOfOldHostNameIsRemoved(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	setHostName := func(host string) {
		_, _ = s.registry.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity},
			arklet.Heartbeat{Active: true, HostName: host})
		s.registry.SetHealth(tunnel.Origin{Identity: identity}, arklet.Health{MetaspaceMax: 256 << 20})
		s.reconcileOnce(t)
	}
	roles := func() map[string]string {
		list := map[string]string{}
		for key, value := range s.liveNode(t).Labels {
			if role, ok := strings.CutPrefix(key, labels.RolePrefix); ok {
				list[role] = value
			}
		}
		return list
	}
	setHostName("old")
	n := s.liveNode(t)
	n.Labels[labels.RolePrefix+"theirs"] = ""
	if _, err := s.api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.sync(t)
	if diff := cmp.Diff(map[string]string{"base.old": "base", "theirs": ""}, roles()); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	setHostName("new")
	if diff := cmp.Diff(map[string]string{"base.new": "base", "theirs": ""}, roles()); diff != "" {
		t.Errorf("roles after a change of the host name (-want +got):\n%s", diff)
	}
	setHostName("a/b") // not a valid role
	if diff := cmp.Diff(map[string]string{"theirs": ""}, roles()); diff != "" {
		t.Errorf("roles for a host name that is not a valid label (-want +got):\n%s", diff)
	}
}

// TestOnlyKnownNodeIsDeleted checks that the controller does not delete a Node that has replaced the known Node, or
// that another controller has taken over.
func TestOnlyKnownNodeIsDeleted(t *testing.T) {
	s := newServing(t, newAPI())
	n := s.liveNode(t)
	n.Annotations[labels.Holder] = "other"
	if _, err := s.api.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// it goes
	_, _ = s.registry.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}, arklet.Heartbeat{})
	if _, err := s.reconcile(t.Context(), identity); err == nil {
		t.Error("a conflict is not reported as an error")
	}
	s.reconcileOnce(t)
	if _, err := s.api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		t.Error("the Node of another controller was deleted")
	}
}
