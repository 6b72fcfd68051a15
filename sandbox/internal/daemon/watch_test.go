package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

type stream struct {
	t      *testing.T
	events chan events.Event
	cancel context.CancelFunc
	ended  chan error
}

func (b *fixture) watch(r control.WatchRequest) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{t: b.t, events: make(chan events.Event, 10_000), cancel: cancel, ended: make(chan error, 1)}
	client := control.NewClient(b.dir.SocketPath())
	go func() {
		defer client.Close()
		s.ended <- client.Watch(ctx, r, func(e events.Event) { s.events <- e })
	}()
	b.t.Cleanup(s.end)
	return s
}

func (s *stream) end() {
	s.cancel()
	select {
	case err := <-s.ended:
		s.ended <- err
	case <-time.After(waitTimeout):
		s.t.Error("a watch did not end")
	}
}

// lineOf formats the kind, base, state, name, module and code of an event as one line.
func lineOf(e events.Event) string {
	kind, rest := "synced", ""
	switch {
	case e.Base != nil:
		kind, rest = "base", string(e.Base.Change)
	case e.Health != nil:
		kind, rest = "health", e.Health.Health
	case e.Module != nil:
		kind, rest = "module", events.Join(" ", string(e.Module.State), e.Module.Name)
	case e.Command != nil:
		kind, rest = "command", events.Join(" ", e.Command.Name, e.Command.Module.Name, e.Command.Code)
	case e.Component != nil:
		kind, rest = "component", string(e.Component.State)+" "+e.Component.Name
	case e.Fault != nil:
		kind, rest = "fault", events.Join(" ", string(e.Fault.Change), e.Fault.ID, string(e.Fault.Kind))
	case e.Request != nil:
		kind, rest = "request", events.Join(" ", string(e.Request.Result), e.Request.Stream, e.Request.Module.Name)
	}
	return events.Join(" ", kind, e.BaseName(), rest)
}

// until reads events until one is formatted as want, and returns the lines of all events that it has read.
func (s *stream) until(want string) []string {
	s.t.Helper()
	var got []string
	limit := time.After(waitTimeout)
	for {
		select {
		case e := <-s.events:
			line := lineOf(e)
			if e.Command != nil && e.Command.Name == events.CommandHealth {
				s.t.Errorf("successful health check of %s was reported", e.Command.Base)
			}
			// this controller sends no commands, except the installation by the test
			if e.Command == nil || e.Command.Name == events.CommandInstall {
				got = append(got, line)
			}
			if line == want {
				return got
			}
		case err := <-s.ended:
			s.ended <- err
			s.t.Fatalf("the watch ended with %v before %q; events: %q", err, want, got)
		case <-limit:
			s.t.Fatalf("no event %q; events: %q", want, got)
		}
	}
}

func TestWatchGroup(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 1))
	add := func(group, set string, spec *v1alpha1.BaseSet) control.Base {
		t.Helper()
		added, err := b.AddBases(t.Context(), control.AddRequest{Count: 1, Group: group, Set: set, Spec: spec})
		check.Must(t, err)
		return added[0]
	}
	add("g", "old", &v1alpha1.BaseSet{
		Faults: []v1alpha1.Fault{{Kind: basefault.KindLatency, Delay: basefault.Delay{Min: 1}}}})
	s := b.watch(control.WatchRequest{Group: "g"})
	all := b.watch(control.WatchRequest{})
	want := []string{"component running broker", "component running module-controller",
		"base old-1 up", "base old-1 ready", "base old-1 connected", "health old-1 UP",
		"fault old-1 set fault-1 latency", "synced"}
	if diff := cmp.Diff(want, s.until("synced")); diff != "" {
		t.Errorf("initial snapshot (-want +got):\n%s", diff)
	}
	all.until("synced")

	add("other", "web", nil)
	if _, err := b.SetFault(t.Context(), fault.Injection{
		Bases: []string{"g-old-1"},
		Fault: v1alpha1.Fault{ID: "full", Kind: basefault.KindError, Code: "User.DiskFull",
			Match: v1alpha1.FaultMatch{Version: "9"}},
	}); err != nil {
		t.Fatal(err)
	}
	web := add("g", "web", &v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP})
	m, err := b.daemon.assembly.fleet.Find(web.HostName)
	check.Must(t, err)
	got := s.until("base web-1 connected")
	command := func(name, body string) {
		t.Helper()
		response, err := http.Post("http://"+m.Base.HTTPAddr()+"/"+name, "application/json", strings.NewReader(body))
		check.Must(t, err)
		_ = response.Body.Close()
	}
	command(events.CommandHealth, `{}`)
	command("installBiz", `{"bizName":"biz1","bizVersion":"1","bizUrl":"https://modules.example/biz1-1-ark-biz.jar"}`)
	command("uninstallBiz", `{"bizName":"biz1","bizVersion":"1"}`)
	for _, action := range []supervise.Action{supervise.Pause, supervise.Resume, supervise.Stop, supervise.Start} {
		check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "broker", Action: action}))
	}
	check.Must(t, b.Act(t.Context(), control.ActRequest{Component: "module-controller", Action: supervise.Kill}))
	if _, err := b.RemoveBases(t.Context(), control.RemoveRequest{Bases: []string{web.HostName}}); err != nil {
		t.Fatal(err)
	}
	got = append(got, s.until("base web-1 removed")...)
	// old-1 disconnects and reconnects with the broker
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "base old-1") })
	want = []string{"fault old-1 set full error", "base web-1 up", "health web-1 UNKNOWN", "health web-1 UP",
		"base web-1 ready", "base web-1 connected", "module web-1 RESOLVED biz1", "module web-1 ACTIVATED biz1",
		"health web-1 UP", "command web-1 installBiz biz1", // the metaspace usage has changed
		"module web-1 DEACTIVATED biz1", "module web-1 STOPPED biz1", "module web-1 biz1", "health web-1 UP",
		"component paused broker", "component running broker", "component exited broker", "component running broker",
		"component stopping module-controller", "component exited module-controller", "base web-1 down",
		"base web-1 removed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := all.until("base g-web-1 removed"); !slices.Contains(got, "base other-web-1 up") ||
		!slices.Contains(got, "module g-web-1 ACTIVATED biz1") {
		t.Errorf("events of all bases: %q", got)
	}
	s.cancel()
	if err := <-s.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled watch returned %v", err)
	}
	s.ended <- nil
	if err := b.Down(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-all.ended; err != nil {
		t.Errorf("the watch returned %v at the end of the daemon", err)
	}
	all.ended <- nil
}

// TestOwnerDisconnects checks that the daemon removes the bases and request streams of a group, and reverts its
// component changes, when the owner of the group disconnects. After that, it must be impossible to add anything to
// the group.
func TestOwnerDisconnects(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 1))
	s := b.watch(control.WatchRequest{Group: "g", Own: true})
	s.until("synced")
	conflict := func(what string, err error) {
		t.Helper()
		var refused *control.Error
		if !errors.As(err, &refused) || refused.Code != http.StatusConflict {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
	conflict("second owner", b.Watch(t.Context(), control.WatchRequest{Group: "g", Own: true}, func(events.Event) {}))
	if err := b.Watch(t.Context(), control.WatchRequest{Own: true}, func(events.Event) {}); err == nil ||
		!strings.Contains(err.Error(), "requires a group") {
		t.Errorf("owning all bases returned %v", err)
	}
	if _, err := b.AddBases(t.Context(), control.AddRequest{Count: 2, Group: "g"}); err != nil {
		t.Fatal(err)
	}
	spec := traffic.Spec{Traffic: v1alpha1.Traffic{Via: v1alpha1.ViaBases, Module: "biz1"}}
	check.Must(t, b.StartTraffic(t.Context(), "g", spec))
	act := func(name string, action supervise.Action) {
		t.Helper()
		check.Must(t, b.Act(t.Context(), control.ActRequest{Component: name, Action: action, Group: "g"}))
	}
	if _, err := b.SetController(t.Context(), control.ControllerRequest{Replicas: 2, Group: "g"}); err != nil {
		t.Fatal(err)
	}
	before := b.controllers()
	act("module-controller", supervise.Kill)
	act("broker", supervise.Kill)
	act("broker", supervise.Start)
	act("broker", supervise.Pause)
	s.cancel()
	b.eventually(func() error {
		status, err := b.Status(t.Context(), false)
		if err != nil {
			return err
		}
		all := components(status)
		if all["broker"] != "running true" || all["module-controller"] != "running true" ||
			all["module-controller-2"] != "" {
			return fmt.Errorf("component changes are not reverted: %v", all)
		}
		return nil
	})
	if after := b.controllers(); after["module-controller"] == before["module-controller"] {
		t.Errorf("the controller was not killed: %v", after)
	}
	b.eventually(func() error {
		bases, err := b.Bases(t.Context(), "g")
		if err == nil && len(bases) > 0 {
			err = fmt.Errorf("%d bases remain", len(bases))
		}
		return err
	})
	b.eventually(func() error {
		streams, err := b.Traffic(t.Context(), "g")
		if err == nil && len(streams) > 0 {
			err = fmt.Errorf("%d streams remain", len(streams))
		}
		return err
	})
	_, err := b.AddBases(t.Context(), control.AddRequest{Count: 1, Group: "g"})
	conflict("AddBases after the disconnection", err)
	conflict("StartTraffic after the disconnection", b.StartTraffic(t.Context(), "g", spec))
	b.watch(control.WatchRequest{Group: "g", Own: true}).until("synced")
	b.eventually(func() error { // the name of a base is free when the previous base has ended
		_, err := b.AddBases(t.Context(), control.AddRequest{Count: 1, Group: "g"})
		return err
	})
}

// TestSlowSubscriber checks that the event stream of a slow subscriber ends with an error, and that the subscriber
// does not block the publisher.
func TestSlowSubscriber(t *testing.T) {
	s := &subscriber{}
	e := events.Event{Base: &events.BaseEvent{Change: "up"}}
	for range maxQueuedEvents { // the initial snapshot is not limited
		s.Put(e)
	}
	s.endSnapshot()
	var read int
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.follow(ctx, func(events.Event) {
		read++
		if read == maxQueuedEvents+1 {
			cancel()
		}
	}); err != nil || read != maxQueuedEvents+1 {
		t.Errorf("read %d events, then %v", read, err)
	}
	for range maxQueuedEvents + 1 {
		s.Put(e)
	}
	read = 0
	err := s.follow(t.Context(), func(events.Event) { read++ })
	var refused *control.Error
	if !errors.As(err, &refused) || refused.Code != http.StatusServiceUnavailable || read != maxQueuedEvents {
		t.Errorf("read %d events, then %v", read, err)
	}
}

func TestTraffic(t *testing.T) {
	b := newFixture(t)
	b.up(request("good", 1))
	all := b.watch(control.WatchRequest{})
	all.until("synced")
	if _, err := b.AddBases(t.Context(), control.AddRequest{Count: 2, Group: "g", Set: "web"}); err != nil {
		t.Fatal(err)
	}
	s := b.watch(control.WatchRequest{Group: "g"})
	spec := traffic.Spec{Traffic: v1alpha1.Traffic{Name: "load", Via: v1alpha1.ViaBases, Module: "biz1",
		Bases: v1alpha1.BaseNames{"web"}}}
	check.Must(t, b.StartTraffic(t.Context(), "g", spec))
	for _, stream := range []struct {
		*stream
		prefix string
	}{{s, ""}, {all, "g-"}} { // no base has the module
		stream.until("request " + stream.prefix + "web-1 notFound load biz1")
		stream.until("request " + stream.prefix + "web-2 notFound load biz1")
	}
	for what, c := range map[string]struct {
		code int
		err  error
	}{
		"duplicate name": {http.StatusConflict, b.StartTraffic(t.Context(), "g", spec)},
		"invalid route": {http.StatusBadRequest,
			b.StartTraffic(t.Context(), "g",
				traffic.Spec{Traffic: v1alpha1.Traffic{Name: "x", Rate: new(int), Via: "ox"}})},
		"stopping an unknown stream": {http.StatusNotFound,
			func() error { _, err := b.StopTraffic(t.Context(), "g", "none"); return err }()},
		"records of an unknown stream": {http.StatusNotFound,
			b.TrafficRecords(t.Context(), "g", "none", func(traffic.Record) {})},
	} {
		var refused *control.Error
		if !errors.As(c.err, &refused) || refused.Code != c.code {
			t.Errorf("%s returned %v, want status %d", what, c.err, c.code)
		}
	}
	running, err := b.Traffic(t.Context(), "g")
	if err != nil || len(running) != 1 || running[0].Name != "load" || running[0].Sent == 0 ||
		!running[0].Ended.IsZero() {
		t.Errorf("running streams: %+v, %v", running, err)
	}
	end, err := b.StopTraffic(t.Context(), "g", "load")
	check.Must(t, err)
	var records int
	if err := b.TrafficRecords(t.Context(), "g", "load", func(traffic.Record) { records++ }); err != nil {
		t.Error(err)
	}
	if end.Sent == 0 || end.Lost != end.Sent || len(end.LostRequests) == 0 || records != end.Sent {
		t.Errorf("%d requests, %d lost, %d lost requests listed, %d recorded", end.Sent, end.Lost,
			len(end.LostRequests), records)
	}
	status, err := b.Status(t.Context(), false)
	check.Must(t, err)
	// Commands of the controller pass through the gateway to the arklet listener of the base.
	added, err := b.AddBases(t.Context(),
		control.AddRequest{Count: 1, Group: "g", Set: "http", Spec: &v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}})
	check.Must(t, err)
	m, err := b.daemon.assembly.fleet.Find(added[0].HostName)
	check.Must(t, err)
	_, port, _ := strings.Cut(m.Base.HTTPAddr(), ":")
	client := &http.Client{Transport: &http.Transport{Proxy: proxyTo(t, status.Gateway), DisableKeepAlives: true}}
	response, err := client.Post("http://"+m.IP()+":"+port+"/queryAllBiz", "application/json", strings.NewReader("{}"))
	check.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Code, BaseIdentity string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Code != "SUCCESS" ||
		answer.BaseIdentity != added[0].Identity {
		t.Errorf("through the gateway: %+v, %v", answer, err)
	}
}
