package vnode

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// kept is what the Lease of the base's Node keeps; "no lease" if there is none.
func (s *fixture) kept(t *testing.T) string {
	t.Helper()
	l, err := s.api.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		return "no lease"
	}
	return l.Annotations[labels.Placed]
}

func (s *fixture) wantKept(t *testing.T, when, want string) {
	t.Helper()
	if got := s.kept(t); got != want {
		t.Errorf("%s the Lease keeps %q, want %q", when, got, want)
	}
}

func TestTheLeaseOfABaseThatFellSilentIsKeptForADay(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	s.hear()
	s.reconcileOnce(t)
	s.ledger = "biz1"
	pass(t, 60*time.Second, s)
	s.FellSilent(identity)
	s.reconcileOnce(t)
	s.wantKept(t, "when the base is gone", "biz1")

	if err := s.forgetOld(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantKept(t, "an hour later", "biz1")
	s.clock.Step(ledgerKept)
	s.sync(t)
	if err := s.forgetOld(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantKept(t, "after a day", "no lease")
}

func TestTheLeaseGoesWithABaseThatSaysSo(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	s.hear()
	s.reconcileOnce(t)
	s.ledger = "biz1"
	pass(t, 60*time.Second, s)
	s.reconcileOnce(t)
	s.wantKept(t, "when the base is gone", "no lease")
}

// What the controller kept that served the base stays, whenever the others find that it is gone.
func TestTheLeaseOfAnothersBaseThatFellSilentIsKept(t *testing.T) {
	first, second := pair(t)
	first.ledger = "biz1"
	pass(t, 30*time.Second, first, second)
	second.hear() // and nobody else did
	pass(t, 30*time.Second, first, second)
	first.FellSilent(identity)
	first.reconcileOnce(t)
	second.sync(t)
	second.reconcileOnce(t)
	pass(t, 60*time.Second, second)
	second.FellSilent(identity)
	second.reconcileOnce(t)
	first.wantKept(t, "when the base is gone", "biz1")
	if second.Knows(identity) {
		t.Error("the other controller knows the base for ever")
	}
}
