package remote_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// base is the interface of the methods that fakebase.Base and remote.Base have in common.
type base interface {
	Start(context.Context) error
	Status() fakebase.Status
	Identity() string
	Faults() []fault.Status
	Inject(fault.Fault) (string, error)
	Clear(...string) int
	Restart(string) error
	Watch(func(fakebase.Event)) (fakebase.Status, func())
	Trace(func(fakebase.Trace)) func()
	WebAddr(context.Context) (string, error)
	HTTPAddr() string
}

// process is a simulated process that calls Serve.
type process struct {
	http.RoundTripper
	kill func()
}

func newProcess(t *testing.T) *process {
	t.Helper()
	local, remoteEnd := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		remote.Serve(context.WithoutCancel(t.Context()), remoteEnd, "dev", slog.New(slog.DiscardHandler), 0)
	}()
	client, err := stdio.Dial(local)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{client, func() {
		_ = client.Close()
		<-served
	}}
	t.Cleanup(p.kill)
	return p
}

// options returns the options of a base with an HTTP tunnel. Tests install modules over this tunnel.
func options() fakebase.Options {
	return fakebase.Options{
		Identity: "b1", IP: "127.0.0.1", HTTP: &fakebase.HTTPOptions{Addr: "0.0.0.0:0"},
		Web:       &fakebase.WebOptions{Addr: "0.0.0.0:0"},
		Catalogue: &fakebase.Catalogue{Fetch: fakebase.FetchNever}, Activation: fakebase.ActivateNewModule,
		Faults: []fault.Fault{{ID: "first", Kind: fault.KindLatency, Delay: fakebase.Delay{Min: 1}}},
	}
}

// testBoth runs a test with a local base and with a remote base.
func testBoth(t *testing.T, test func(t *testing.T, b base)) {
	t.Run("local", func(t *testing.T) {
		o := options()
		o.HTTP.Addr, o.Web.Addr = "127.0.0.1:0", "127.0.0.1:0"
		b, err := fakebase.New(o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
	t.Run("remote", func(t *testing.T) {
		b, err := remote.New(t.Context(), newProcess(t), remote.Options{Options: options()})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

// log collects the events and traces of a base.
type log struct {
	mu     sync.Mutex
	events []fakebase.Event
	traces []fakebase.Trace
	added  chan struct{}
}

// watch collects the events and traces of a base in a log until the test ends.
func watch(t *testing.T, b base) *log {
	l := &log{added: make(chan struct{}, 1)}
	record := func(add func()) {
		l.mu.Lock()
		defer l.mu.Unlock()
		add()
		select {
		case l.added <- struct{}{}:
		default:
		}
	}
	untrace := b.Trace(func(x fakebase.Trace) { record(func() { l.traces = append(l.traces, x) }) })
	_, unwatch := b.Watch(func(e fakebase.Event) { record(func() { l.events = append(l.events, e) }) })
	t.Cleanup(func() {
		unwatch()
		untrace()
	})
	return l
}

// waitFor waits for a matching event. It removes this event and all earlier events from the log.
func (l *log) waitFor(t *testing.T, match func(fakebase.Event) bool) fakebase.Event {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		l.mu.Lock()
		i := slices.IndexFunc(l.events, match)
		var e fakebase.Event
		if i >= 0 {
			e, l.events = l.events[i], l.events[i+1:]
		}
		rest := len(l.events)
		l.mu.Unlock()
		if i >= 0 {
			return e
		}
		select {
		case <-l.added:
		case <-limit:
			t.Fatalf("timeout waiting for an event; %d other events in the log", rest)
		}
	}
}

func ofKind(k fakebase.EventKind) func(fakebase.Event) bool {
	return func(e fakebase.Event) bool { return e.Kind == k }
}

// faults returns the traces of faults in the form "ID STATE".
func (l *log) faults() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.traces {
		if x.Fault != nil {
			list = append(list, x.Fault.ID+" "+string(x.Fault.State))
		}
	}
	return list
}

// start starts a base. The returned function stop stops the base and waits for the result of Start.
func start(t *testing.T, b base) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Start() = %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// install sends a command that installs a module version.
func install(t *testing.T, b base, version string) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); b.HTTPAddr() == ""; { // opening the server is not an event
		if time.Now().After(limit) {
			t.Fatal("timeout waiting for the HTTP server of arklet")
		}
		runtime.Gosched()
	}
	response, err := http.Post("http://"+b.HTTPAddr()+"/installBiz", "application/json",
		strings.NewReader(`{"bizName":"m","bizVersion":"`+version+`","bizUrl":"https://h/m-`+version+`-ark-biz.jar"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func biz(version string, s fakebase.State) func(fakebase.Event) bool {
	return func(e fakebase.Event) bool {
		return e.Kind == fakebase.EventBiz && e.Version == version && e.To == s
	}
}

func TestStartAndStop(t *testing.T) {
	testBoth(t, func(t *testing.T, b base) {
		if s := b.Status(); s.Running || s.Identity != "b1" || s.HostName != "b1" || s.IP != "127.0.0.1" {
			t.Errorf("status before Start = %+v", s)
		}
		if err := b.Restart(""); !errors.Is(err, fakebase.ErrNotRunning) {
			t.Errorf("Restart() before Start = %v, want ErrNotRunning", err)
		}
		l := watch(t, b)
		stop := start(t, b)
		first := l.waitFor(t, ofKind(fakebase.EventUp))
		l.waitFor(t, ofKind(fakebase.EventReady))
		if first.Seq != 1 || first.Identity != "b1" || time.Since(first.Time) > time.Minute {
			t.Errorf("first event = %+v", first)
		}
		if err := b.Start(t.Context()); !errors.Is(err, fakebase.ErrStarted) {
			t.Errorf("second Start() = %v, want ErrStarted", err)
		}
		web, err := b.WebAddr(t.Context())
		if host, _, _ := net.SplitHostPort(web); err != nil || host != "127.0.0.1" {
			t.Errorf("WebAddr() = %s, %v; want 127.0.0.1", web, err)
		}
		install(t, b, "1")
		l.waitFor(t, biz("1", fakebase.StateActivated))
		response, err := http.Get("http://" + web + "/m/")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(text), `"version":"1"`) {
			t.Errorf("response of the module = %s, error = %v", text, err)
		}
		stop()
		last := l.waitFor(t, ofKind(fakebase.EventDown))
		if s := b.Status(); s.Running || len(s.Biz) > 0 || last.Identity != "b1" {
			t.Errorf("status after the end = %+v, last event = %+v", s, last)
		}
		if err := b.Restart(""); !errors.Is(err, fakebase.ErrNotRunning) {
			t.Errorf("Restart() after the end = %v, want ErrNotRunning", err)
		}
	})
}

// TestWatchHasNoGaps checks that no event is missing between the status that Watch returns and the events that
// follow.
func TestWatchHasNoGaps(t *testing.T) {
	testBoth(t, func(t *testing.T, b base) {
		l := watch(t, b)
		start(t, b)
		l.waitFor(t, ofKind(fakebase.EventReady))
		var watchers sync.WaitGroup
		for range 20 {
			watchers.Go(func() {
				var mu sync.Mutex
				mu.Lock()
				states, last := map[string]fakebase.State{}, uint64(0)
				done := make(chan struct{})
				initial, stop := b.Watch(func(e fakebase.Event) {
					mu.Lock()
					defer mu.Unlock()
					from, known := states[e.Version]
					if last != 0 && e.Seq != last+1 || known && e.From != from {
						t.Errorf("event %+v after event %d, states = %v", e, last, states)
					}
					states[e.Version], last = e.To, e.Seq
					if e.Version == "30" && e.To == fakebase.StateActivated {
						close(done)
					}
				})
				defer stop()
				for _, m := range initial.Biz {
					states[m.Version] = m.State
				}
				installed := states["30"] == fakebase.StateActivated
				mu.Unlock()
				if !installed {
					<-done
				}
			})
		}
		for i := range 30 {
			install(t, b, []string{"10", "20", "30"}[i/10])
		}
		watchers.Wait()
	})
}

func TestFaults(t *testing.T) {
	testBoth(t, func(t *testing.T, b base) {
		l := watch(t, b)
		start(t, b)
		l.waitFor(t, ofKind(fakebase.EventReady))
		if got := b.Faults(); len(got) != 1 || got[0].ID != "first" {
			t.Errorf("initial faults = %+v, want first", got)
		}
		var want []string
		wantFaults := func(ids ...string) { // the traces arrive before the response
			t.Helper()
			if d := cmp.Diff(want, l.faults()); d != "" {
				t.Fatalf("traces (-want +got):\n%s", d)
			}
			var got []string
			for _, f := range b.Faults() {
				got = append(got, f.ID)
			}
			if d := cmp.Diff(ids, got); d != "" {
				t.Fatalf("faults (-want +got):\n%s", d)
			}
		}
		for i := range 20 {
			id, err := b.Inject(fault.Fault{Kind: fault.KindSilent})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, id+" set")
			wantFaults("first", id)
			if n := b.Clear(id, "unknown"); n != 1 {
				t.Errorf("iteration %d: Clear() = %d, want 1", i, n)
			}
			want = append(want, id+" cleared")
			wantFaults("first")
		}
		if _, err := b.Inject(fault.Fault{ID: "first", Kind: fault.KindSilent}); err == nil ||
			!strings.Contains(err.Error(), fault.ErrExists.Error()) {
			t.Errorf("Inject() with the same ID = %v, want ErrExists", err)
		}
		install(t, b, "1") // which the first fault delays
		l.waitFor(t, biz("1", fakebase.StateActivated))
		if n := b.Clear(); n != 1 {
			t.Errorf("Clear() = %d, want 1", n)
		}
		want = append(want, "first fired", "first cleared")
		wantFaults()
	})
}

func TestRestart(t *testing.T) {
	testBoth(t, func(t *testing.T, b base) {
		l := watch(t, b)
		start(t, b)
		l.waitFor(t, ofKind(fakebase.EventReady))
		if err := b.Restart("a/b"); err == nil || !strings.Contains(err.Error(), `"a/b"`) {
			t.Errorf("Restart() with an invalid identity = %v", err)
		}
		if err := b.Restart("b2"); err != nil {
			t.Fatal(err)
		}
		l.waitFor(t, ofKind(fakebase.EventDown))
		l.waitFor(t, ofKind(fakebase.EventUp))
		if got := b.Identity(); got != "b2" {
			t.Errorf("Identity() = %q, want b2", got)
		}
	})
}

func TestInvalidOptions(t *testing.T) {
	o := options()
	o.Generation, o.Identity = "Z", "a/b"
	_, err := remote.New(t.Context(), newProcess(t), remote.Options{Options: o})
	if err == nil || !strings.Contains(err.Error(), `Generation "Z"`) ||
		!strings.Contains(err.Error(), `Identity "a/b"`) {
		t.Error(err)
	}
	_, err = remote.New(t.Context(), newProcess(t), remote.Options{
		Options: fakebase.Options{MQTT: &fakebase.MQTTOptions{Broker: "ssl://h:1"}}, BrokerCA: []byte("x"),
	})
	if err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Error(err)
	}
}

// TestClockOffset checks that the timestamps of a base are converted to the local clock.
func TestClockOffset(t *testing.T) {
	began := time.Now()
	b, err := remote.New(t.Context(), newProcess(t),
		remote.Options{Options: options(), ClockOffset: func() time.Duration { return time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	l, done := watch(t, b), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- b.Start(ctx) }()
	ready := l.waitFor(t, ofKind(fakebase.EventReady))
	for what, at := range map[string]time.Time{"the event": ready.Time, "the start": b.Status().Started} {
		if earlier := began.Sub(at); earlier < 50*time.Minute || earlier > time.Hour {
			t.Errorf("time of %s is %s before the test, want an hour", what, earlier)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// pausedTransport simulates a process that is paused after it has created a base and then does not respond.
type pausedTransport struct{}

func (pausedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	stream, end := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = end.CloseWithError(r.Context().Err()) })
	switch path.Base(r.URL.Path) {
	case "Make":
		_ = stream.Close()
		return &http.Response{StatusCode: http.StatusOK,
			Body: io.NopCloser(strings.NewReader(`{"status": {"identity": "b1"}}`))}, nil
	case "Follow":
		return &http.Response{StatusCode: http.StatusOK, Body: stream}, nil
	default:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
}

func TestPausedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := remote.New(t.Context(), pausedTransport{}, remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Inject(fault.Fault{Kind: fault.KindSilent}); err == nil ||
			!strings.Contains(err.Error(), `"b1"`) || !strings.Contains(err.Error(), "5s") {
			t.Errorf("Inject() = %v, want a timeout after 5s", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := b.Start(ctx); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("Start() returned after %s with %v; want 5s, nil", time.Since(began), err)
		}
	})
}
