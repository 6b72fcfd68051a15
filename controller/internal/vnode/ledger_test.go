package vnode

import (
	"context"
	"runtime"
	"sync"
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

func TestWhatPodsHadPutOnABaseOutlivesItsController(t *testing.T) {
	api := newAPI()
	first := newFixture(t, Options{Holder: "me"}, api)
	first.hear()
	first.reconcileOnce(t)
	first.writes()
	first.ledger = "biz1"
	if wait := first.reconcileOnce(t); wait != ledgerSoon {
		t.Errorf("it is written after %s, want %s", wait, ledgerSoon)
	}
	first.wantWrites(t, "right after the last renewal")
	pass(t, ledgerSoon, first)
	first.hear()
	first.reconcileOnce(t)
	first.wantWrites(t, "soon", "update leases")
	first.wantKept(t, "soon", "biz1")

	second := newFixture(t, Options{Holder: "me", Clock: first.clock}, api)
	second.hear()
	second.reconcileFor(t, time.Minute)
	if second.restored != "biz1" {
		t.Errorf("the next controller gets %q", second.restored)
	}
}

func TestALedgerThatIsWaitedForIsWrittenAtOnce(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	s.hear()
	s.reconcileOnce(t)
	for _, ledger := range []string{"biz1", "biz1,biz2", "biz1,biz2"} {
		s.writes()
		before := s.ledger
		s.ledger = ledger
		const waiters = 3
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { s.KeepLedger(t.Context(), identity) })
		}
		for len(s.waitingFor(identity)) < waiters {
			runtime.Gosched()
		}
		s.reconcileOnce(t)
		wg.Wait()
		s.wantKept(t, "as soon as somebody waits", ledger)
		if before == ledger {
			s.wantWrites(t, "with nothing new")
		} else {
			s.wantWrites(t, "for all that wait", "update leases")
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.KeepLedger(ended, identity)
	if n := len(s.waitingFor(identity)); n > 0 {
		t.Errorf("%d wait that have gone", n)
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
