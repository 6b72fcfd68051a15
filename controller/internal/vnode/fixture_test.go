package vnode

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

const (
	identity = "a"
	nodeName = "vnode.a"
)

// fixture is a Reconciler with a fake clock and a fake API.
type fixture struct {
	*Reconciler
	api    *fake.Clientset
	clock  *clocktesting.FakeClock
	cache  cache.Indexer // cached Nodes, the state of the informer
	events []string      // calls of OnOwned, OnLost and OnNodeDeleted: owned, lost, gone
	notes  *record.FakeRecorder
	cut    atomic.Bool // the controller has no connection to the API
	down   atomic.Bool // whether the tunnel is down

	// current install record, and the install record passed to OnOwned
	installRecord, restored string
	// install records by base, used instead of installRecord for many bases
	installRecords func(identity string) string
	goneErr        error // error that the next OnNodeDeleted returns

	renewed time.Time
}

// newAPI returns a fake API server with optimistic concurrency, which the fake clientset lacks. It does not use
// NewClientset, which also supports managed fields but would take a minute in these tests.
func newAPI(objects ...runtime.Object) *fake.Clientset {
	api := fake.NewSimpleClientset(objects...) //nolint:staticcheck // see above
	version := 1
	stamp := func(o runtime.Object) metav1.Object {
		m, err := meta.Accessor(o)
		if err != nil {
			panic(err)
		}
		version++
		m.SetResourceVersion(strconv.Itoa(version))
		return m
	}
	for _, resource := range []string{"nodes", "leases"} {
		api.PrependReactor("create", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			m := stamp(a.(clienttesting.CreateAction).GetObject())
			m.SetUID(types.UID("uid-" + m.GetResourceVersion()))
			return false, nil, nil
		})
		api.PrependReactor("update", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			o := a.(clienttesting.UpdateAction).GetObject()
			m, err := meta.Accessor(o)
			if err != nil {
				return true, nil, err
			}
			stored, err := api.Tracker().Get(a.GetResource(), a.GetNamespace(), m.GetName())
			if err != nil {
				return true, nil, err
			}
			if s, err := meta.Accessor(stored); err != nil || s.GetResourceVersion() != m.GetResourceVersion() {
				return true, nil,
					apierrors.NewConflict(a.GetResource().GroupResource(), m.GetName(),
						errors.New("the object has been modified"))
			}
			stamp(o)
			return false, nil, nil
		})
		api.PrependReactor("delete", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			d := a.(clienttesting.DeleteActionImpl)
			stored, err := api.Tracker().Get(a.GetResource(), a.GetNamespace(), d.Name)
			if err != nil {
				return true, nil, err
			}
			s, err := meta.Accessor(stored)
			if err != nil {
				return true, nil, err
			}
			if p := d.DeleteOptions.Preconditions; p != nil &&
				(p.UID != nil && *p.UID != s.GetUID() ||
					p.ResourceVersion != nil && *p.ResourceVersion != s.GetResourceVersion()) {
				return true, nil,
					apierrors.NewConflict(a.GetResource().GroupResource(), d.Name,
						errors.New("the precondition failed"))
			}
			return false, nil, nil
		})
	}
	return api
}

// newServing returns a fixture whose controller serves the base.
func newServing(t *testing.T, api *fake.Clientset) *fixture {
	t.Helper()
	s := newFixture(t, Options{Holder: "me"}, api)
	s.heartbeat()
	s.reconcileOnce(t)
	return s
}

// newFixture returns a fixture whose controller runs on the same machine as all other controllers. The controller can
// therefore detect that another controller has ended.
func newFixture(t *testing.T, opts Options, api *fake.Clientset) *fixture {
	t.Helper()
	return newFixtureAt(t, opts, api, true)
}

// newFixtureAt returns a fixture with one controller. ended is the result of checking whether another process has
// ended.
func newFixtureAt(t *testing.T, opts Options, api *fake.Clientset, ended bool) *fixture {
	t.Helper()
	s := &fixture{api: api, clock: clocktesting.NewFakeClock(noon), notes: record.NewFakeRecorder(100)}
	if c, shared := opts.Clock.(*clocktesting.FakeClock); shared {
		s.clock = c
	}
	connected := func(tunnel.Key) bool { return !s.down.Load() }
	registry := base.NewRegistry(
		base.Options{Clock: s.clock, Connected: connected, MayAct: func() bool { return s.MayAct() }})
	if opts.Env == "" {
		opts.Env = "dev"
	}
	opts.Clock, opts.Recorder, opts.Connected, opts.Tunnels = s.clock, s.notes, connected, []tunnel.Key{tunnel.MQTT}
	opts.Requested = func(string) int64 { return 0 }
	opts.InstallRecord = func(id string) string {
		if s.installRecords != nil {
			return s.installRecords(id)
		}
		return s.installRecord
	}
	opts.OnOwned = func(_, _, ledger string) { s.events, s.restored = append(s.events, "owned"), ledger }
	opts.OnLost = func(string, string) { s.events = append(s.events, "lost") }
	opts.OnNodeDeleted = func(ctx context.Context, _, node string) error {
		s.events = append(s.events, "gone")
		if _, err := api.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err == nil {
			s.events = append(s.events, "before its Node")
		}
		err := s.goneErr
		s.goneErr = nil
		return err
	}
	informer := informers.NewSharedInformerFactory(api, 0).Core().V1().Nodes()
	s.cache = informer.Informer().GetIndexer()
	s.Reconciler = New(opts, api, informer.Lister(), registry)
	s.ownLease.hasEnded = func(string) bool { return ended }
	s.runTasksOnce(t)
	return s
}

func (s *fixture) heartbeat() {
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}
	_, _ = s.registry.HandleHeartbeat(from,
		arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", HostName: "base-0", Active: true})
	s.registry.SetHealth(from, arklet.Health{MetaspaceMax: 256 << 20, MetaspaceCommitted: 60 << 20})
}

// runTasksOnce runs the background tasks once: the renewal of the Lease, the watch of the other controllers' Leases,
// the sweep and the guard.
func (s *fixture) runTasksOnce(t *testing.T) {
	t.Helper()
	if now := s.clock.Now(); !s.cut.Load() && now.Sub(s.renewed) >= s.ownLease.opts.LeaseDuration/5 {
		s.renewed = now
		if err := s.ownLease.renew(t.Context()); err != nil && !errors.Is(err, errSameID) {
			t.Fatalf("renewing: %v", err)
		}
		leases, err := s.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(),
			metav1.ListOptions{LabelSelector: s.PeerSelector()})
		if err != nil {
			t.Fatal(err)
		}
		for i := range leases.Items {
			s.HandlePeerLease(&leases.Items[i], false)
		}
	}
	if !s.cut.Load() {
		s.sync(t)
	}
	s.registry.Sweep()
	s.checkActing()
	s.writeJournal(t)
}

// writeJournal writes the journal if a write is due.
func (s *fixture) writeJournal(t *testing.T) {
	t.Helper()
	if left, something := s.journal.untilWrite(); something && left <= 0 {
		s.journal.writeDue(t.Context())
	}
}

// sync copies all Nodes of the API server to the informer.
func (s *fixture) sync(t *testing.T) {
	t.Helper()
	nodes, err := s.api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var items []any
	for i := range nodes.Items {
		items = append(items, &nodes.Items[i])
	}
	if err := s.cache.Replace(items, ""); err != nil {
		t.Fatal(err)
	}
}

// advance advances the clock that the controllers share by the given time, one second at a time.
func advance(t *testing.T, d time.Duration, all ...*fixture) {
	t.Helper()
	for range d / time.Second {
		all[0].clock.Step(time.Second)
		for _, s := range all {
			s.runTasksOnce(t)
		}
	}
}

func (s *fixture) reconcileOnce(t *testing.T) time.Duration {
	t.Helper()
	wait, err := s.reconcile(t.Context(), identity)
	if err != nil {
		t.Fatalf("reconcile: %v", err)
	}
	return wait
}

// reconcileFor reconciles the base for the given time, whenever a reconciliation is due.
func (s *fixture) reconcileFor(t *testing.T, d time.Duration) {
	t.Helper()
	for end := s.clock.Now().Add(d); ; {
		wait := s.reconcileOnce(t)
		if s.Owns(identity) || s.clock.Now().Add(wait).After(end) {
			return
		}
		s.clock.Step(max(wait, time.Millisecond))
	}
}

// takeOver waits until this controller has taken over the base of a stopped controller.
func (s *fixture) takeOver(t *testing.T) {
	t.Helper()
	for range 30 {
		s.heartbeat()
		s.reconcileOnce(t)
		if s.Owns(identity) {
			return
		}
		advance(t, time.Second, s)
	}
	t.Fatal("the base is not taken over within 30 s")
}

// writes returns the write requests since the last call, each as verb and resource. It excludes the writes of the
// controller's own Lease.
func (s *fixture) writes() (w []string) {
	for _, a := range s.api.Actions() {
		if a.GetVerb() == "get" || a.GetVerb() == "list" || a.GetVerb() == "watch" {
			continue
		}
		if named, ok := a.(interface{ GetObject() runtime.Object }); ok {
			if m, err := meta.Accessor(named.GetObject()); err == nil && m.GetName() == s.ownLease.leaseName() {
				continue
			}
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

// wantEvent checks that exactly one Event was recorded since the last call, and that the Event contains the texts.
func (s *fixture) wantEvent(t *testing.T, texts ...string) {
	t.Helper()
	var events []string
	for len(s.notes.Events) > 0 {
		events = append(events, <-s.notes.Events)
	}
	missing := func(text string) bool { return !strings.Contains(events[0], text) }
	if len(events) != 1 || slices.ContainsFunc(texts, missing) {
		t.Errorf("Events %q, want one with %q", events, texts)
	}
}

// deleteNode deletes the Node as a client other than the controller.
func (s *fixture) deleteNode(t *testing.T) {
	t.Helper()
	if err := s.api.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *fixture) liveNode(t *testing.T) *corev1.Node {
	t.Helper()
	n, err := s.api.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
