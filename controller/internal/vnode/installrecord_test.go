package vnode

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// savedRecord returns the install record in the Lease of the base's Node, or "no lease" if there is no Lease.
func (s *fixture) savedRecord(t *testing.T) string {
	t.Helper()
	l, err := s.api.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		return "no lease"
	}
	return l.Annotations[labels.InstallRecord]
}

func (s *fixture) wantKept(t *testing.T, when, want string) {
	t.Helper()
	if got := s.savedRecord(t); got != want {
		t.Errorf("%s, the Lease contains %q, want %q", when, got, want)
	}
}

func TestLeaseOfUnreachableBaseIsRetainedForADay(t *testing.T) {
	s := newServing(t, newAPI())
	s.installRecord = "biz1"
	advance(t, 60*time.Second, s)
	s.HeartbeatsTimedOut(identity)
	s.reconcileOnce(t)
	s.wantKept(t, "when the base is gone", "biz1")

	s.sync(t)
	s.forget(t)
	s.wantKept(t, "an hour later", "biz1")
	s.clock.Step(recordRetention)
	s.forget(t)
	s.wantKept(t, "after a day", "no lease")
}

func (s *fixture) forget(t *testing.T) {
	t.Helper()
	if err := s.deleteOldLeasesOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLeaseIsRetainedWhenClockChanges changes the clock of the controller, or of the controller that wrote the Lease,
// by a month. The Lease of an unreachable base must be retained for the same time as without the change.
func TestLeaseIsRetainedWhenClockChanges(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": 30 * 24 * time.Hour, "back": -30 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newServing(t, newAPI())
			s.installRecord = "biz1"
			advance(t, 60*time.Second, s)
			s.HeartbeatsTimedOut(identity)
			s.reconcileOnce(t)
			s.sync(t)
			leases := s.api.CoordinationV1().Leases("kube-node-lease")
			l, err := leases.Get(t.Context(), nodeName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(s.clock.Now().Add(-by)))
			if _, err := leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			for range 23 {
				s.forget(t)
				s.clock.Step(retentionCheckInterval)
			}
			s.wantKept(t, "within a day", "biz1")
			s.clock.Step(retentionCheckInterval)
			s.forget(t)
			s.wantKept(t, "after a day", "no lease")
		})
	}
}

// TestJournalIsRetainedWhenClockChanges checks that the install record of an unreachable base stays in the journal
// after a restart of the controller, even if the clock has changed.
func TestJournalIsRetainedWhenClockChanges(t *testing.T) {
	api := newAPI()
	first := newFixture(t, Options{Holder: "me"}, api)
	bases := first.serveAll(t, 2)
	first.installRecord = "biz1"
	first.saveAll(t, bases...)
	s := newFixture(t, Options{Holder: "me", Clock: clocktesting.NewFakeClock(noon.Add(30 * 24 * time.Hour))}, api)
	s.installRecord = "biz2"
	s.serveAll(t, 1)
	s.installRecord = "biz3"
	s.saveAll(t, bases[0])
	if got := s.inJournal(t)[bases[1]]; got != "biz1" {
		t.Errorf("the journal contains %q for a base that has not recovered, want %q", got, "biz1")
	}
}

func TestLeaseOfEndedBaseIsDeleted(t *testing.T) {
	s := newServing(t, newAPI())
	s.installRecord = "biz1"
	advance(t, 60*time.Second, s)
	s.reconcileOnce(t)
	s.wantKept(t, "when the base is gone", "no lease")
}

// TestLeaseOfUnreachableBaseOfOtherControllerIsRetained stops the controller that served the base. Other controllers
// then remove the unreachable base. They must keep the install record that the first controller wrote.
func TestLeaseOfUnreachableBaseOfOtherControllerIsRetained(t *testing.T) {
	first, second := newFixturePair(t)
	first.installRecord = "biz1"
	advance(t, 30*time.Second, first, second)
	second.heartbeat()
	advance(t, 30*time.Second, first, second)
	first.HeartbeatsTimedOut(identity)
	first.reconcileOnce(t)
	second.sync(t)
	second.reconcileOnce(t)
	advance(t, 60*time.Second, second)
	second.HeartbeatsTimedOut(identity)
	second.reconcileOnce(t)
	first.wantKept(t, "when the base is gone", "biz1")
	if second.state(identity) != nil {
		t.Error("the other controller still has the base")
	}
}
