package fleet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
)

const waitTimeout = check.WaitTimeout

// fixture is a fleet with a broker. Both stop at the end of the test.
type fixture struct {
	broker *broker.Broker
	fleet  *fleet.Fleet

	mu         sync.Mutex
	heartbeats map[string]int // number of received HTTP heartbeats, by content
	rejecting  bool           // whether to reject HTTP heartbeats
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureWith(t, func(*fleet.Options, string) {})
}

// newFixtureWith returns a fixture after change has modified the options of the fleet.
func newFixtureWith(t testing.TB, change func(o *fleet.Options, brokerAddr string)) *fixture {
	t.Helper()
	b, err := broker.New(broker.Options{Env: "dev"})
	check.Must(t, err)
	f := &fixture{broker: b, heartbeats: map[string]int{}}
	o := fleet.Options{Own: []v1alpha1.BaseSet{{BaseName: "shop", Version: "2.0"}}, ClusterName: "east",
		Username: broker.BaseUser, Password: b.Passwords().Base, Dial: b.Dial, Heartbeats: f}
	change(&o, b.Addr())
	f.fleet = fleet.New(o)
	check.Run(t, b.Start)
	check.Run(t, f.fleet.Start)
	return f
}

// RoundTrip accepts heartbeats, as a controller would.
func (b *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rejecting {
		return nil, errors.New("connection refused")
	}
	b.heartbeats[string(body)]++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func (b *fixture) add(t testing.TB, count int) []*fleet.Member {
	t.Helper()
	return b.addSet(t, fleet.Set{}, count)
}

func (b *fixture) addSet(t testing.TB, s fleet.Set, count int) []*fleet.Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	added, err := b.fleet.Add(ctx, s, count)
	if err == nil {
		err = b.fleet.WaitConnected(ctx, added...)
	}
	check.Must(t, err)
	return added
}

func remove(t testing.TB, b *fixture, s fleet.Selection) []*fleet.Member {
	t.Helper()
	gone, err := b.fleet.Remove(t.Context(), s)
	if err != nil {
		t.Error(err)
	}
	return gone
}

func names(members []*fleet.Member) []string {
	var out []string
	for _, m := range members {
		out = append(out, m.HostName+" "+m.IP())
	}
	return out
}

// TestRemoveDeletesNodes checks that Remove deletes the Nodes of removed bases unless Unannounced is set. Remove must
// return the removed bases even if deleting the Nodes fails.
func TestRemoveDeletesNodes(t *testing.T) {
	var deleted []string
	var failure error
	b := newFixtureWith(t, func(o *fleet.Options, _ string) {
		o.DeleteNodes = func(ctx context.Context, identities []string) error {
			deleted = append(deleted, identities...)
			return errors.Join(failure, ctx.Err())
		}
	})
	ids := b.fleet.IdentitiesOf(b.add(t, 5))
	cut, cancel := context.WithCancel(t.Context())
	cancel() // the client disconnects
	for _, s := range []fleet.Selection{{Newest: 1}, {Names: []string{"base-1", "base-2"}},
		{Names: []string{"base-3"}, Unannounced: true}} {
		if _, err := b.fleet.Remove(cut, s); err != nil {
			t.Errorf("Remove(%+v) returned %v", s, err)
		}
	}
	if diff := cmp.Diff([]string{ids[4], ids[0], ids[1]}, deleted); diff != "" {
		t.Errorf("identities whose Nodes were deleted (-want +got):\n%s", diff)
	}
	removed := b.fleet.RemovedIdentities()
	want := []string{ids[0], ids[1], ids[2], ids[4]}
	slices.Sort(removed)
	slices.Sort(want)
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed identities (-want +got):\n%s", diff)
	}
	failure = errors.New("no API")
	gone, err := b.fleet.Remove(t.Context(), fleet.Selection{Newest: 1})
	if len(gone) != 1 || !errors.Is(err, failure) {
		t.Errorf("%d bases removed, error %v", len(gone), err)
	}
}

func TestAddAndRemove(t *testing.T) {
	b := newFixture(t)
	first := b.add(t, 4)
	if diff := cmp.Diff([]string{"base-1 198.18.0.1", "base-2 198.18.0.2", "base-3 198.18.0.3", "base-4 198.18.0.4"},
		names(first)); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Names: []string{"base-1", "base-9"}}); !errors.Is(err,
		fleet.ErrUnknown) {
		t.Errorf("removing an unknown base returned %v", err)
	}
	gone, err := b.fleet.Remove(t.Context(),
		fleet.Selection{Names: []string{"base-2", first[0].Base.Status().Identity, "198.18.0.2"}})
	check.Must(t, err)
	if diff := cmp.Diff([]string{"base-1 198.18.0.1", "base-2 198.18.0.2"}, names(gone)); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	b.add(t, 2)
	if diff := cmp.Diff([]string{"base-6 198.18.0.6"}, names(remove(t, b, fleet.Selection{Newest: 1}))); diff != "" {
		t.Errorf("newest base (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"base-3 198.18.0.3", "base-4 198.18.0.4", "base-5 198.18.0.5"},
		names(b.fleet.List())); diff != "" {
		t.Errorf("remaining bases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fleet.Counts{Own: 3, OwnConnected: 3}, b.fleet.Count()); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
	if m, err := b.fleet.Find("base-4"); err != nil || m.HostName != "base-4" {
		t.Errorf("Find: %v, %v", m, err)
	}
	if gone := remove(t, b, fleet.Selection{Newest: 10}); len(gone) != 3 {
		t.Errorf("removed %v", names(gone))
	}
}

func TestAddAfterEnd(t *testing.T) {
	f := fleet.New(fleet.Options{Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("down") }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Start(ctx) }()
	added, err := f.Add(t.Context(), fleet.Set{}, 1)
	check.Must(t, err)
	short, end := context.WithCancel(t.Context())
	end()
	if err := f.WaitConnected(short, added...); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("WaitConnected without a broker returned %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := f.Add(short, fleet.Set{}, 1); !errors.Is(err, fleet.ErrNotRunning) {
		t.Errorf("Add returned %v, want ErrNotRunning", err)
	}
}

// TestMaxBases checks that concurrent calls of Add do not add more bases in total than MaxBases allows.
func TestMaxBases(t *testing.T) {
	const maxBases = 20
	b := newFixtureWith(t, func(o *fleet.Options, _ string) { o.MaxBases = maxBases })
	var adding sync.WaitGroup
	var added atomic.Int32
	for range 10 {
		adding.Go(func() {
			members, err := b.fleet.Add(t.Context(), fleet.Set{}, 3)
			if err != nil && (!errors.Is(err, fleet.ErrInvalid) ||
				!strings.Contains(err.Error(), "maximum in a sandbox is 20")) {
				t.Error(err)
			}
			added.Add(int32(len(members)))
		})
	}
	adding.Wait()
	if have := b.fleet.Count().Own; have != 18 || added.Load() != 18 {
		t.Errorf("%d bases added, %d listed; maximum %d", added.Load(), have, maxBases)
	}
}

// TestPrepare checks that prepared bases are not listed before Start, and that Discard releases their names and
// addresses.
func TestPrepare(t *testing.T) {
	b := newFixture(t)
	discarded, err := b.fleet.Prepare(t.Context(), fleet.Set{}, 2)
	check.Must(t, err)
	if all := b.fleet.List(); len(all) != 0 {
		t.Errorf("prepared bases are listed: %v", all)
	}
	discarded.Discard()
	prepared, err := b.fleet.Prepare(t.Context(), fleet.Set{}, 1)
	check.Must(t, err)
	members, err := prepared.Start()
	check.Must(t, err)
	if err := b.fleet.WaitConnected(t.Context(), members...); err != nil || members[0].HostName != "base-1" {
		t.Errorf("%s: %v", members[0].HostName, err)
	}
}
