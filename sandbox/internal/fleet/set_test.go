package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
)

func TestGroups(t *testing.T) {
	b := newFixture(t)
	b.add(t, 1)
	web := fleet.Set{Group: "run-1", Name: "web", Spec: v1alpha1.BaseSet{Version: "3.1"}}
	b.addSet(t, web, 2)
	b.addSet(t, fleet.Set{Group: "run-2"}, 1)
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Names: []string{"run-1-web-2"}}); err != nil {
		t.Fatal(err)
	}
	b.addSet(t, web, 1)
	b.add(t, 1)
	describe := func(members []*fleet.Member) (lines []string) {
		for _, m := range members {
			s := m.Base.Status()
			lines = append(lines,
				fmt.Sprintf("%s %s %s %s %s %d", m.HostName, m.Name(), s.Name, s.Version, m.Tunnel, m.Index))
		}
		return lines
	}
	want := []string{"base-1 base-1 shop 2.0 mqtt 1", "run-1-web-1 web-1 web 3.1 mqtt 1",
		"run-2-base-1 base-1 base 1.0.0 mqtt 1",
		"run-1-web-3 web-3 web 3.1 mqtt 3", "base-2 base-2 shop 2.0 mqtt 2"}
	if diff := cmp.Diff(want, describe(b.fleet.List())); diff != "" {
		t.Errorf("bases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fleet.Counts{Own: 2, OwnConnected: 2, Groups: 3, GroupsConnected: 3},
		b.fleet.Count()); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
	m, ok := b.fleet.ByIP("198.18.0.5")
	if !ok || m.HostName != "run-1-web-3" {
		t.Errorf("198.18.0.5 is the address of %v", m)
	}
	if diff := cmp.Diff([]string{"run-1-web-1 web-1 web 3.1 mqtt 1", "run-1-web-3 web-3 web 3.1 mqtt 3"},
		describe(remove(t, b, fleet.Selection{Group: "run-1"}))); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if gone := remove(t, b, fleet.Selection{Newest: 9}); len(gone) != 2 {
		t.Errorf("removing the 9 newest bases removed %v", describe(gone))
	}
	if diff := cmp.Diff([]string{"run-2-base-1 base-1 base 1.0.0 mqtt 1"}, describe(b.fleet.List())); diff != "" {
		t.Errorf("remaining bases (-want +got):\n%s", diff)
	}
	if _, ok := b.fleet.ByIP("198.18.0.5"); ok {
		t.Error("ByIP returned a removed base")
	}
	if again := b.addSet(t, web, 1); again[0].HostName != "run-1-web-1" {
		t.Errorf("the first base of a new group with the same name is %s", again[0].HostName)
	}
}

// TestSetSettings checks that a base that uses the HTTP tunnel has all settings of its set.
func TestSetSettings(t *testing.T) {
	b := newFixture(t)
	d := func(ms int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(ms) * time.Millisecond} }
	m := b.addSet(t, fleet.Set{Group: "g", Name: "s", Seed: 7, Spec: v1alpha1.BaseSet{
		BaseName: "shop", Version: "4", Tunnel: v1alpha1.TunnelHTTP, Activation: v1alpha1.ActivationDefault,
		WebPort: 9090, WebModules: []v1alpha1.WebModule{{Name: "shop", ContextPath: "/s"}},
		InstallTime: d(30), RequestTime: d(20), Zone: "z1", Labels: map[string]string{"rack": "7"},
		Metaspace: v1alpha1.Metaspace{Max: "128Mi", PerModule: "8Mi"},
		Modules:   []string{"https://modules.example/carried-1.0-ark-biz.jar"},
		Faults:    []v1alpha1.Fault{{Kind: fault.KindClockSkew, Skew: fault.Duration(time.Hour)}},
	}}, 1)[0]
	b.mu.Lock()
	var heartbeat struct {
		BaseMetadata struct {
			ClusterName string
			Labels      map[string]string
		}
		LocalIP, LocalHostName string
	}
	for body := range b.heartbeats {
		check.Must(t, json.Unmarshal([]byte(body), &heartbeat))
	}
	b.mu.Unlock()
	if heartbeat.LocalIP != "198.18.0.1" || heartbeat.LocalHostName != "g-s-1" ||
		heartbeat.BaseMetadata.ClusterName != "g" || heartbeat.BaseMetadata.Labels["rack"] != "7" ||
		heartbeat.BaseMetadata.Labels[corev1.LabelTopologyZone] != "z1" {
		t.Errorf("heartbeat: %v", heartbeat)
	}
	awaitReady(m.Base) // static modules are first in the list
	install := func(module string) time.Duration {
		start := time.Now()
		response, err := http.Post("http://"+m.Base.HTTPAddr()+"/installBiz", "application/json",
			strings.NewReader(`{"bizUrl":"https://modules.example/`+module+`-ark-biz.jar"}`))
		check.Must(t, err)
		_ = response.Body.Close()
		return time.Since(start)
	}
	if took := install("biz1-1.0"); took < 30*time.Millisecond {
		t.Errorf("an install took %s", took)
	}
	install("biz1-2.0")
	install("shop-1.0")
	install("shop-2.0") // rejected: the context path is in use
	s := m.Base.Status()
	var modules []string
	for _, biz := range s.Biz {
		modules = append(modules, biz.Name+":"+biz.Version+" "+string(biz.State))
	}
	if diff := cmp.Diff([]string{"carried:1.0 ACTIVATED", "biz1:1.0 ACTIVATED", "biz1:2.0 DEACTIVATED",
		"shop:1.0 ACTIVATED"}, modules); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if s.Metaspace.Max != 128<<20 || s.Metaspace.Used < 53<<20+3*8<<20 || m.WebPort != "9090" {
		t.Errorf("metaspace: %+v, web port %s", s.Metaspace, m.WebPort)
	}
	if faults := m.Base.Faults(); len(faults) != 1 || faults[0].Kind != fault.KindClockSkew {
		t.Errorf("faults: %v", faults)
	}
	web, err := m.Base.WebAddr(t.Context())
	check.Must(t, err)
	start := time.Now()
	response, err := http.Get("http://" + web + "/biz1")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("a request took %s", took)
	}
}

// TestFetch checks that bases download jars only if their set enables this.
func TestFetch(t *testing.T) {
	for _, c := range []struct{ set, want v1alpha1.Fetch }{
		{want: v1alpha1.FetchNever},
		{set: v1alpha1.FetchAvailable, want: v1alpha1.FetchAvailable},
	} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(http.StatusNotFound) // the base then simulates the module
		}))
		defer server.Close()
		b := newFixture(t)
		m := b.addSet(t, fleet.Set{Group: "g",
			Spec: v1alpha1.BaseSet{Fetch: c.set, Modules: []string{server.URL + "/stock-1.0-ark-biz.jar"}}}, 1)[0]
		awaitReady(m.Base)
		if biz := m.Base.Status().Biz; len(biz) != 1 || requests.Load() > 0 != (c.want == v1alpha1.FetchAvailable) {
			t.Errorf("set %q: %d requests, modules %+v", c.set, requests.Load(), biz)
		}
	}
	b := newFixture(t)
	if _, err := b.fleet.Add(t.Context(), fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Fetch: "sometimes"}},
		1); !errors.Is(err, fleet.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// TestOwnSets checks that a fleet has several own sets with different settings, that a set with new settings can be
// added while the fleet runs, and that the newest bases of one set can be removed.
func TestOwnSets(t *testing.T) {
	b := newFixtureWith(t, func(o *fleet.Options, _ string) {
		o.Own = []v1alpha1.BaseSet{{Name: "web", Version: "1"}, {Name: "old", BaseName: "shop", ClusterName: "west"}}
	})
	b.addSet(t, fleet.Set{}, 1)
	b.addSet(t, fleet.Set{Name: "old"}, 2)
	b.addSet(t, fleet.Set{Name: "new", Spec: v1alpha1.BaseSet{Version: "2"}}, 1)
	b.addSet(t, fleet.Set{Name: "new"}, 1)
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Newest: 1, Set: "old"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range b.fleet.List() {
		o := m.Base.Status()
		got = append(got, m.HostName+" "+o.Name+" "+o.Version)
	}
	if diff := cmp.Diff([]string{"web-1 web 1", "old-1 shop 1.0.0", "new-1 new 2", "new-2 new 2"}, got); diff != "" {
		t.Errorf("bases (-want +got):\n%s", diff)
	}
}

// awaitReady blocks until a base and its preinstalled modules have started.
func awaitReady(b fleet.Base) {
	ready := make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	now, stop := b.Watch(func(e fakebase.Event) {
		if e.Kind == fakebase.EventReady {
			once()
		}
	})
	defer stop()
	if now.Ready {
		once()
	}
	<-ready
}

// TestEnvSuffix checks that the environment of a set gets the suffix EnvSuffix, which separates the bases from other
// clients of an external broker.
func TestEnvSuffix(t *testing.T) {
	b, err := broker.New(broker.Options{Env: "prod-x"})
	check.Must(t, err)
	f := fleet.New(fleet.Options{Env: "dev", EnvSuffix: "-x", Username: broker.BaseUser, Password: b.Passwords().Base,
		Dial: b.Dial})
	check.Run(t, b.Start)
	check.Run(t, f.Start)
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + b.Addr()).SetClientID("koupleless@@@c").
		SetUsername(broker.ControllerUser).SetPassword(b.Passwords().Controller))
	if token := c.Connect(); !token.WaitTimeout(waitTimeout) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer c.Disconnect(0)
	received := make(chan string, 1)
	token := c.Subscribe("koupleless_prod-x/+/base/heart", 1, func(_ paho.Client, m paho.Message) {
		select {
		case received <- m.Topic():
		default: // one message is enough
		}
	})
	if !token.WaitTimeout(waitTimeout) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	if _, err := f.Add(t.Context(), fleet.Set{Group: "g", Spec: v1alpha1.BaseSet{Env: "prod"}}, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-received:
	case <-time.After(waitTimeout):
		t.Fatal("no heartbeat in the environment with the suffix")
	}
}

func TestAddRejectsInvalidSets(t *testing.T) {
	b := newFixture(t)
	b.addSet(t, fleet.Set{Group: "a-b", Name: "c"}, 1)
	for want, s := range map[string]fleet.Set{
		"available: base":                      {Name: "web"},
		"exists and keeps its settings":        {Name: "base", Spec: v1alpha1.BaseSet{Version: "2"}},
		"supported: mqtt, http":                {Group: "g", Spec: v1alpha1.BaseSet{Tunnel: "carrier pigeon"}},
		"supported: newModule, default, multi": {Group: "g", Spec: v1alpha1.BaseSet{Activation: "always"}},
		"256Mi": {Group: "g",
			Spec: v1alpha1.BaseSet{Metaspace: v1alpha1.Metaspace{Max: "much"}}},
		"faults[1]": {Group: "g",
			Spec: v1alpha1.BaseSet{Faults: []v1alpha1.Fault{{Kind: fault.KindDeaf}, {Kind: "meteor"}}}},
		"negative":             {Group: "g", Spec: v1alpha1.BaseSet{InstallTime: &metav1.Duration{Duration: -1}}},
		"Metaspace.Max, which": {Group: "g", Spec: v1alpha1.BaseSet{Metaspace: v1alpha1.Metaspace{Max: "1Mi"}}},
		"GROUP-SET-N":          {Group: "Run_1"},
		"a-b-c-1":              {Group: "a", Name: "b-c"},
	} {
		if _, err := b.fleet.Add(t.Context(), s, 1); !errors.Is(err, fleet.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Add(%+v) returned %v, want %q", s, err, want)
		}
	}
	if got := b.fleet.Count(); got.Own+got.Groups != 1 {
		t.Errorf("bases: %+v, want 1", got)
	}
}

// TestWaitConnected checks that WaitConnected waits for the given bases and for no others, and that it does not wait
// for bases that start offline.
func TestWaitConnected(t *testing.T) {
	b := newFixture(t)
	disconnected := b.add(t, 1)[0]
	if _, err := disconnected.Base.Inject(fault.Fault{Kind: fault.KindDisconnect}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []fleet.Set{
		{Group: "g", Name: "fine"},
		{Group: "g", Name: "cut", Spec: v1alpha1.BaseSet{Faults: []v1alpha1.Fault{{Kind: fault.KindDisconnect}}}},
		{Group: "g", Name: "elsewhere", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP, Env: "other"}},
	} {
		b.addSet(t, s, 2)
	}
	b.mu.Lock()
	b.rejecting = true
	b.mu.Unlock()
	added, err := b.fleet.Add(t.Context(),
		fleet.Set{Group: "g", Name: "http", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}}, 2)
	check.Must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.fleet.WaitConnected(short, added...); err == nil || !strings.Contains(err.Error(), ": 2 of 2,") {
		t.Errorf("WaitConnected returned %v", err)
	}
}

func TestRestart(t *testing.T) {
	b := newFixture(t)
	for _, tunnel := range []v1alpha1.Tunnel{v1alpha1.TunnelMQTT, v1alpha1.TunnelHTTP} {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, new identity %t", tunnel, fresh), func(t *testing.T) {
				s := fleet.Set{Group: "g", Name: string(tunnel), Spec: v1alpha1.BaseSet{Tunnel: tunnel}}
				m := b.addSet(t, s, 1)[0]
				before, started := m.Base.Identity(), m.Base.Status().Started
				ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
				defer cancel()
				again, err := b.fleet.Restart(ctx, m.HostName, fresh)
				check.Must(t, err)
				status := m.Base.Status()
				if again != m || !b.fleet.Connected(m) || !status.Started.After(started) ||
					(status.Identity != before) != fresh {
					t.Errorf("status after the restart: %+v", status)
				}
				had := []string{before}
				if fresh {
					had = append(had, status.Identity)
				}
				if diff := cmp.Diff(had, b.fleet.IdentitiesOf([]*fleet.Member{m})); diff != "" {
					t.Errorf("identities (-want +got):\n%s", diff)
				}
				if known := b.fleet.StartedIdentities(); !known[before] || !known[status.Identity] {
					t.Errorf("StartedIdentities returned %v", known)
				}
			})
		}
	}
	if _, err := b.fleet.Restart(t.Context(), "base-9", false); !errors.Is(err, fleet.ErrUnknown) {
		t.Errorf("restarting an unknown base returned %v", err)
	}
}

// recorder is a Watcher that records its calls for each base.
type recorder struct {
	mu    sync.Mutex
	lines map[string][]string
	more  chan struct{}
}

func (d *recorder) record(m *fleet.Member, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lines == nil {
		d.lines = map[string][]string{}
	}
	d.lines[m.HostName] = append(d.lines[m.HostName], fmt.Sprintf(format, args...))
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *recorder) OnSnapshot(m *fleet.Member, v fleet.BaseSnapshot) {
	d.record(m, "snapshot started %t running %t connected %t faults %d", v.Started, v.Running, v.Connected,
		len(v.Faults))
}
func (d *recorder) OnEvent(m *fleet.Member, e fakebase.Event) { d.record(m, "%s", e.Kind) }
func (d *recorder) OnTrace(m *fleet.Member, t fakebase.Trace) {
	if t.Fault != nil {
		d.record(m, "fault %s", t.Fault.State)
	}
}
func (d *recorder) OnRemoved(m *fleet.Member) { d.record(m, "removed") }

// until blocks until the recorder has recorded count calls for a base, and returns the calls.
func (d *recorder) until(t *testing.T, host string, count int) []string {
	t.Helper()
	limit := time.After(waitTimeout)
	for {
		d.mu.Lock()
		lines := d.lines[host]
		d.mu.Unlock()
		if len(lines) >= count {
			return lines
		}
		select {
		case <-d.more:
		case <-limit:
			t.Fatalf("calls for %s: %q, want %d", host, lines, count)
		}
	}
}

func TestWatch(t *testing.T) {
	b := newFixture(t)
	b.add(t, 1)
	b.addSet(t, fleet.Set{Group: "g", Name: "old", Spec: v1alpha1.BaseSet{Faults: []v1alpha1.Fault{{Kind: "deaf"}}}}, 1)
	d := &recorder{more: make(chan struct{}, 1)}
	stop := b.fleet.Watch("g", d)
	if diff := cmp.Diff([]string{"snapshot started true running true connected true faults 1"},
		d.until(t, "g-old-1", 1)); diff != "" {
		t.Errorf("initial snapshot (-want +got):\n%s", diff)
	}
	web := b.addSet(t, fleet.Set{Group: "g", Name: "web", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}}, 1)[0]
	d.until(t, "g-web-1", 4)
	if _, err := web.Base.Inject(fault.Fault{Kind: fault.KindHang}); err != nil {
		t.Fatal(err)
	}
	remove(t, b, fleet.Selection{Group: "g"})
	want := map[string][]string{
		"g-old-1": {"snapshot started true running true connected true faults 1", "disconnected", "down", "removed"},
		"g-web-1": {"snapshot started false running false connected false faults 0", "up", "health", "health", "ready",
			"connected", "fault set", "down", "removed"},
	}
	d.mu.Lock()
	if lines := d.lines["g-old-1"]; len(lines) == 3 { // the base ended before it noticed the disconnection
		want["g-old-1"] = []string{want["g-old-1"][0], "down", "removed"}
	}
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	d.mu.Unlock()
	stop()
	b.addSet(t, fleet.Set{Group: "g"}, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) != 2 {
		t.Errorf("calls after stop: %v", d.lines)
	}
}

// TestWatchDuringChanges checks that a watcher gets exactly one OnSnapshot call for each base, before all other calls
// for the base, and no calls for the base after OnRemoved. Bases are added and removed during the test.
func TestWatchDuringChanges(t *testing.T) {
	b := newFixture(t)
	var changing, watching sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for g := range 4 {
		changing.Go(func() {
			for range 10 {
				group := fmt.Sprintf("g%d", g)
				added, err := b.fleet.Add(ctx, fleet.Set{Group: group}, 3)
				if err == nil {
					err = b.fleet.WaitConnected(ctx, added...)
				}
				if err != nil {
					t.Error(err)
				}
				if _, err := b.fleet.Remove(ctx, fleet.Selection{Group: group}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	over := make(chan struct{})
	var seen int
	var mu sync.Mutex
	for range 4 {
		watching.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				d := &recorder{more: make(chan struct{}, 1)}
				stop := b.fleet.Watch("", d)
				<-d.more
				stop()
				d.mu.Lock()
				for host, lines := range d.lines {
					for i, line := range lines {
						if first := strings.HasPrefix(line, "snapshot"); first != (i == 0 || lines[i-1] == "removed") {
							t.Errorf("calls for %s: %q", host, lines)
						}
					}
				}
				mu.Lock()
				seen += len(d.lines)
				mu.Unlock()
				d.mu.Unlock()
			}
		})
	}
	changing.Wait()
	close(over)
	b.add(t, 1) // unblocks watchers that wait for a first call
	watching.Wait()
	if seen == 0 {
		t.Error("no calls")
	}
}
