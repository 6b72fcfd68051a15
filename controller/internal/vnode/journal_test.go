package vnode

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// serveAll sends heartbeats of many bases, and waits until the controller serves all of them.
func (s *fixture) serveAll(t *testing.T, n int) (identities []string) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("b%03d", i)
		identities = append(identities, id)
		from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: id}
		_, _ = s.registry.HandleHeartbeat(from,
			arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", HostName: id, Active: true})
		s.registry.SetHealth(from, arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 60 << 20})
		if _, err := s.reconcile(t.Context(), id); err != nil || !s.Owns(id) {
			t.Fatalf("%s is not served: %v", id, err)
		}
	}
	s.writes()
	return identities
}

// saveAll saves the install records of the bases concurrently, and returns when all records are saved.
func (s *fixture) saveAll(t *testing.T, identities ...string) {
	t.Helper()
	var wg sync.WaitGroup
	before := s.nWaiting()
	for _, id := range identities {
		wg.Go(func() { s.SaveInstallRecord(t.Context(), id) })
	}
	for s.nWaiting() < before+len(identities) {
		runtime.Gosched()
	}
	for turns := 0; s.nWaiting() > 0; turns++ {
		if turns == 100 {
			t.Fatalf("%d calls still wait", s.nWaiting())
		}
		s.clock.Step(minWriteInterval)
		s.writeJournal(t)
		for _, id := range identities {
			if s.journal.needsNodeLease(id) {
				if _, err := s.reconcile(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	wg.Wait()
}

// nWaiting returns the number of calls that are waiting for a write of the journal or of a Lease.
func (s *fixture) nWaiting() (n int) {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	for _, w := range s.journal.waiting {
		n += len(w)
	}
	for _, p := range s.journal.bases {
		n += len(p.waiting)
	}
	return n
}

// inJournal returns the install records in the journal on the API server; nil if there is no journal.
func (s *fixture) inJournal(t *testing.T) map[string]string {
	t.Helper()
	l, err := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), s.journal.name(),
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, err := unpack(l.Annotations[labels.InstallRecords])
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]string{}
	for id, e := range entries {
		records[id] = e.Modules
	}
	return records
}

func TestRecordsOfManyBasesAreOneWrite(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	bases := s.serveAll(t, 50)
	s.installRecord = "biz1"
	s.saveAll(t, bases...)
	s.wantWrites(t, "for all bases", "create leases")
	s.saveAll(t, bases...)
	s.wantWrites(t, "with nothing new")
	s.installRecord = "biz1,biz2"
	s.saveAll(t, bases[0])
	s.wantWrites(t, "for one", "update leases")
	if got := s.inJournal(t); len(got) != 50 || got[bases[0]] != "biz1,biz2" || got[bases[1]] != "biz1" {
		t.Errorf("the journal contains %v", got)
	}

	s.clock.Step(s.opts.NodeLease / 2) // the Leases of Nodes have the records now
	s.runTasksOnce(t)
	for _, id := range bases {
		if _, err := s.reconcile(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	s.writes()
	s.installRecord = ""
	s.saveAll(t, bases[7])
	if diff := cmp.Diff(map[string]string{bases[7]: ""}, s.inJournal(t)); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
	s.clock.Step(time.Minute)
	s.wantWrites(t, "and no others", "update leases")
}

// TestChangedRecordIsWrittenAfterDelay checks that if no caller waits for a changed record, the journal is written
// after a delay, not immediately.
func TestChangedRecordIsWrittenAfterDelay(t *testing.T) {
	s := newServing(t, newAPI())
	s.installRecord = "biz1"
	s.saveAll(t, identity)
	s.writes()
	s.installRecord = ""
	s.InstallRecordChanged(identity)
	advance(t, batchDelay-time.Second, s)
	s.wantWrites(t, "at once")
	advance(t, 2*time.Second, s)
	s.wantWrites(t, "soon", "update leases")
	if diff := cmp.Diff(map[string]string{identity: ""}, s.inJournal(t)); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
}

// TestSavedRecordOutlivesController kills the controller after it has saved a record. The next controller, with the
// same or another CLIENT_ID, must read the saved record.
func TestSavedRecordOutlivesController(t *testing.T) {
	for name, next := range map[string]Options{
		"the same again": {Holder: "me"}, "another one": {Holder: "you"},
		"one of several": {Holder: "you", Cluster: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI()
			first := newFixture(t, Options{Holder: "me", Cluster: next.Cluster}, api)
			first.heartbeat()
			first.reconcileFor(t, time.Minute)
			first.installRecord = "biz1"
			first.saveAll(t, identity)
			first.wantKept(t, "before it is renewed", "")

			next.Clock = first.clock
			second := newFixture(t, next, api)
			second.heartbeat()
			second.reconcileOnce(t)
			advance(t, second.opts.LeaseDuration+time.Second, second) // the Lease of the first controller has expired
			second.heartbeat()
			second.reconcileFor(t, time.Minute)
			if !second.Owns(identity) || second.restored != "biz1" {
				t.Errorf("the next controller serves the base: %t; its record is %q", second.Owns(identity),
					second.restored)
			}
		})
	}
}

// TestNewestRecordIsUsed checks that the record that was written last is used, even if the clock of the controller
// that wrote it is behind.
func TestNewestRecordIsUsed(t *testing.T) {
	api := newAPI()
	first := newFixture(t, Options{Holder: "me"}, api)
	first.heartbeat()
	first.reconcileOnce(t)
	first.installRecord = "old"
	first.saveAll(t, identity)

	behind := newFixture(t, Options{Holder: "you", Clock: clocktesting.NewFakeClock(noon.Add(-time.Hour))}, api)
	behind.takeOver(t)
	if behind.restored != "old" {
		t.Fatalf("the record of the second controller is %q", behind.restored)
	}
	for _, ledger := range []string{"new", ""} { // in the journal, and then in the Lease of the Node
		behind.installRecord = ledger
		behind.saveAll(t, identity)
		if ledger == "" {
			behind.clock.Step(behind.opts.NodeLease / 2)
			behind.runTasksOnce(t)
			behind.reconcileOnce(t)
		}
		third := newFixture(t, Options{Holder: "me", Clock: clocktesting.NewFakeClock(noon.Add(time.Hour))}, api)
		third.takeOver(t)
		if third.restored != ledger {
			t.Errorf("the record of the third controller is %q, want %q", third.restored, ledger)
		}
		behind = newFixture(t, Options{Holder: "you", Clock: behind.clock}, api)
		behind.takeOver(t)
	}
}

// TestRecordsOfEarlierRunStay restarts a controller. The first write of the restarted controller must not remove
// journal records of the earlier run that it has not read yet.
func TestRecordsOfEarlierRunStay(t *testing.T) {
	api := newAPI()
	first := newFixture(t, Options{Holder: "me"}, api)
	bases := first.serveAll(t, 3)
	first.installRecord = "biz1"
	first.saveAll(t, bases...)

	second := newFixture(t, Options{Holder: "me", Clock: first.clock}, api)
	second.installRecord = "biz2"
	second.serveAll(t, 1)
	second.installRecord = "biz3"
	second.saveAll(t, bases[0])
	want := map[string]string{bases[0]: "biz3", bases[1]: "biz1", bases[2]: "biz1"}
	if diff := cmp.Diff(want, second.inJournal(t)); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
	second.clock.Step(recordRetention + time.Hour)
	second.runTasksOnce(t)
	second.serveAll(t, 1)
	second.installRecord = "biz4"
	second.saveAll(t, bases[0])
	if diff := cmp.Diff(map[string]string{bases[0]: "biz4"}, second.inJournal(t)); diff != "" {
		t.Errorf("a day later, without the bases that did not recover (-want +got):\n%s", diff)
	}
}

// TestFullJournal checks that records that do not fit in the journal are written to the Leases of Nodes before the
// calls that wait for these records return.
func TestFullJournal(t *testing.T) {
	s := newFixture(t, Options{Holder: "me"}, newAPI())
	bases := s.serveAll(t, 40)
	s.installRecords = func(id string) string { // incompressible
		var b strings.Builder
		for i := 0; b.Len() < 16<<10; i++ {
			fmt.Fprintf(&b, "%x", sha256.Sum256([]byte(id+fmt.Sprint(i))))
		}
		return b.String()
	}
	s.saveAll(t, bases...)
	noted := s.inJournal(t)
	for _, id := range bases {
		l, err := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), Name(id),
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := s.installRecords(id); l.Annotations[labels.InstallRecord] != want && noted[id] != want {
			t.Errorf("the record of %s is not saved", id)
		}
	}
	if len(noted) == 0 || len(noted) == len(bases) {
		t.Errorf("%d of %d bases are in the journal, so the test has no effect", len(noted), len(bases))
	}
}

// TestUnconfirmedWriteIsNotSaved checks that calls do not return before the API server has confirmed the write. A
// record whose write failed must not be treated as saved, although the API server may have written it.
func TestUnconfirmedWriteIsNotSaved(t *testing.T) {
	api := newAPI()
	s := newServing(t, api)
	s.installRecord = "biz1"
	s.saveAll(t, identity)
	lost := true
	api.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		o := a.(clienttesting.UpdateAction).GetObject()
		m := o.(metav1.Object)
		if !lost || m.GetName() != s.journal.name() {
			return false, nil, nil
		}
		lost = false
		m.SetResourceVersion("1000") // the write succeeds, and the response is lost
		if err := api.Tracker().Update(
			schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, o,
			m.GetNamespace()); err != nil {
			t.Error(err)
		}
		return true, nil, errors.New("the connection is gone")
	})
	s.installRecord = "biz2"
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{})
	go func() { s.SaveInstallRecord(ctx, identity); close(told) }()
	for s.nWaiting() == 0 {
		runtime.Gosched()
	}
	s.clock.Step(minWriteInterval)
	s.writeJournal(t)
	select {
	case <-told:
		t.Error("SaveInstallRecord returned before the record was saved")
	default:
	}
	if got := s.inJournal(t)[identity]; got != "biz2" {
		t.Fatalf("the journal contains %q, so the test has no effect", got)
	}
	cancel()
	<-told
	s.installRecord = "biz1" // must be written again, because biz2 is newer
	s.clock.Step(time.Second)
	s.saveAll(t, identity)
	if got := s.inJournal(t)[identity]; got != "biz1" {
		t.Errorf("the journal contains %q", got)
	}
}

func TestJournalIsNotWrittenWhileNotActing(t *testing.T) {
	s := newServing(t, newAPI())
	s.cut.Store(true)
	s.clock.Step(s.opts.LeaseDuration)
	s.installRecord = "biz1"
	s.writes()
	s.InstallRecordChanged(identity)
	s.writeJournal(t)
	s.checkActing()
	s.writeJournal(t)
	s.wantWrites(t, "without its Lease")
	if got := s.inJournal(t); got != nil {
		t.Errorf("the journal contains %v", got)
	}
}

// TestJournalRemovesEndedBase checks that the record of a base is removed from the journal when the base reports that
// it is shutting down.
func TestJournalRemovesEndedBase(t *testing.T) {
	s := newServing(t, newAPI())
	s.installRecord = "biz1"
	s.saveAll(t, identity)
	advance(t, 60*time.Second, s) // it misses heartbeats
	s.reconcileOnce(t)
	s.installRecord = ""
	s.runTasksOnce(t)
	s.heartbeat()
	s.reconcileFor(t, time.Minute)
	if s.restored != "" {
		t.Errorf("the record after its recovery is %q", s.restored)
	}
	advance(t, batchDelay+time.Second, s)
	if got := s.inJournal(t); got[identity] != "" {
		t.Errorf("the journal contains %v", got)
	}
}

func TestUnusedJournalsAreDeleted(t *testing.T) {
	api := newAPI()
	dead := newFixture(t, Options{Holder: "dead"}, api)
	dead.heartbeat()
	dead.reconcileOnce(t)
	dead.installRecord = "biz1"
	dead.saveAll(t, identity)

	s := newFixture(t, Options{Holder: "me", Clock: dead.clock}, api)
	s.takeOver(t)
	for _, after := range []time.Duration{0, recordRetention} {
		s.clock.Step(after)
		s.runTasksOnce(t)
		s.installRecord = after.String()
		s.saveAll(t, identity)
		if err := s.deleteOldLeasesOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := dead.inJournal(t); (got == nil) != (after > 0) {
			t.Errorf("after %s, the journal of a stopped controller contains %v", after, got)
		}
		if s.inJournal(t) == nil {
			t.Errorf("after %s, the controller has no journal", after)
		}
	}
}

// TestJournalIsDeletedOnStop checks that a controller deletes its journal when it stops, unless it cannot write the
// Leases of the Nodes.
func TestJournalIsDeletedOnStop(t *testing.T) {
	api := newAPI()
	s := newFixture(t, Options{Holder: "me"}, api)
	bases := s.serveAll(t, 3)
	s.installRecord = "biz1"
	s.saveAll(t, bases...)
	refuse := true
	api.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		return refuse && a.(clienttesting.UpdateAction).GetObject().(metav1.Object).GetName() == Name(bases[1]), nil,
			errors.New("not now")
	})
	if err := s.closeJournal(t.Context()); err == nil {
		t.Error("it did not say that a Lease could not be written")
	}
	if s.inJournal(t) == nil {
		t.Error("the journal was deleted, although a Lease does not contain its record")
	}
	refuse = false
	if err := s.closeJournal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.inJournal(t); got != nil {
		t.Errorf("the journal contains %v after the stop", got)
	}
	for _, id := range bases {
		l, err := api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), Name(id), metav1.GetOptions{})
		if err != nil || l.Annotations[labels.InstallRecord] != "biz1" {
			t.Errorf("the Lease of %s contains %v: %v", id, l.Annotations, err)
		}
	}
}

func TestUnpackErrors(t *testing.T) {
	for _, text := range []string{"%", "bm9uc2Vuc2U=", pack(map[string]installRecord{"a": {1, "x"}})[:20]} {
		if got, err := unpack(text); err == nil {
			t.Errorf("%q contains %v", text, got)
		}
	}
	want := map[string]installRecord{"a": {1, "x"}, "b": {2, ""}}
	got, err := unpack(pack(want))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := unpack(pack(nil)); len(got) > 0 || err != nil {
		t.Errorf("an empty text contains %v: %v", got, err)
	}
}
