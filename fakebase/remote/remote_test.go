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

// base is what both kinds of base can do.
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

// process is the process of a base, in this one.
type process struct {
	http.RoundTripper
	kill func()
}

func newProcess(t *testing.T) *process {
	t.Helper()
	here, there := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		remote.Serve(context.WithoutCancel(t.Context()), there, "dev", slog.New(slog.DiscardHandler), 0)
	}()
	client, err := stdio.Dial(here)
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

// options are those of a base with the HTTP tunnel, by which tests install modules.
func options() fakebase.Options {
	return fakebase.Options{
		Identity: "b1", IP: "127.0.0.1", HTTP: &fakebase.HTTPOptions{Addr: "0.0.0.0:0"},
		Web:       &fakebase.WebOptions{Addr: "0.0.0.0:0"},
		Catalogue: &fakebase.Catalogue{Fetch: fakebase.FetchNever}, Activation: fakebase.ActivateNewModule,
		Faults: []fault.Fault{{ID: "first", Kind: fault.KindLatency, Delay: fakebase.Delay{Min: 1}}},
	}
}

// kinds runs a test with a base of this process, and with one of another.
func kinds(t *testing.T, test func(t *testing.T, b base)) {
	t.Run("here", func(t *testing.T) {
		o := options()
		o.HTTP.Addr, o.Web.Addr = "127.0.0.1:0", "127.0.0.1:0"
		b, err := fakebase.New(o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
	t.Run("elsewhere", func(t *testing.T) {
		b, err := remote.New(t.Context(), newProcess(t), remote.Options{Options: options()})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

// log is everything that a base tells.
type log struct {
	mu     sync.Mutex
	events []fakebase.Event
	traces []fakebase.Trace
	more   chan struct{}
}

// watch notes what a base tells until the test ends.
func watch(t *testing.T, b base) *log {
	l := &log{more: make(chan struct{}, 1)}
	note := func(add func()) {
		l.mu.Lock()
		defer l.mu.Unlock()
		add()
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
	untrace := b.Trace(func(x fakebase.Trace) { note(func() { l.traces = append(l.traces, x) }) })
	_, unwatch := b.Watch(func(e fakebase.Event) { note(func() { l.events = append(l.events, e) }) })
	t.Cleanup(func() {
		unwatch()
		untrace()
	})
	return l
}

// until waits for an event.
func (l *log) until(t *testing.T, wanted func(fakebase.Event) bool) fakebase.Event {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		l.mu.Lock()
		i := slices.IndexFunc(l.events, wanted)
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
		case <-l.more:
		case <-limit:
			t.Fatalf("the event did not come; %d others did", rest)
		}
	}
}

func kind(k fakebase.EventKind) func(fakebase.Event) bool {
	return func(e fakebase.Event) bool { return e.Kind == k }
}

// faults are the traces of faults so far, as "id state".
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

// start runs a base; end ends it.
func start(t *testing.T, b base) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Start: %v", err)
			}
		})
	}
	t.Cleanup(end)
	return end
}

// install asks the base for a version of a module.
func install(t *testing.T, b base, version string) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); b.HTTPAddr() == ""; { // it is opened without an event
		if time.Now().After(limit) {
			t.Fatal("arklet does not listen")
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

func TestLife(t *testing.T) {
	kinds(t, func(t *testing.T, b base) {
		if s := b.Status(); s.Running || s.Identity != "b1" || s.HostName != "b1" || s.IP != "127.0.0.1" {
			t.Errorf("before the start: %+v", s)
		}
		if err := b.Restart(""); !errors.Is(err, fakebase.ErrNotRunning) {
			t.Errorf("restarted before the start: %v", err)
		}
		l := watch(t, b)
		end := start(t, b)
		first := l.until(t, kind(fakebase.EventUp))
		l.until(t, kind(fakebase.EventReady))
		if first.Seq != 1 || first.Identity != "b1" || time.Since(first.Time) > time.Minute {
			t.Errorf("the first event: %+v", first)
		}
		if err := b.Start(t.Context()); !errors.Is(err, fakebase.ErrStarted) {
			t.Errorf("started twice: %v", err)
		}
		web, err := b.WebAddr(t.Context())
		if host, _, _ := net.SplitHostPort(web); err != nil || host != "127.0.0.1" {
			t.Errorf("web listener at %s: %v", web, err)
		}
		install(t, b, "1")
		l.until(t, biz("1", fakebase.StateActivated))
		response, err := http.Get("http://" + web + "/m/")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(text), `"version":"1"`) {
			t.Errorf("the module answers %s: %v", text, err)
		}
		end()
		last := l.until(t, kind(fakebase.EventDown))
		if s := b.Status(); s.Running || len(s.Biz) > 0 || last.Identity != "b1" {
			t.Errorf("in the end: %+v, event %+v", s, last)
		}
		if err := b.Restart(""); !errors.Is(err, fakebase.ErrNotRunning) {
			t.Errorf("restarted after the end: %v", err)
		}
	})
}

// What a watch begins with, and the events after it, are the whole story, whenever
// it begins.
func TestWatchHasNoGaps(t *testing.T) {
	kinds(t, func(t *testing.T, b base) {
		l := watch(t, b)
		start(t, b)
		l.until(t, kind(fakebase.EventReady))
		var watchers sync.WaitGroup
		for range 20 {
			watchers.Go(func() {
				var mu sync.Mutex
				mu.Lock()
				states, last := map[string]fakebase.State{}, uint64(0)
				done := make(chan struct{})
				now, stop := b.Watch(func(e fakebase.Event) {
					mu.Lock()
					defer mu.Unlock()
					from, there := states[e.Version]
					if last != 0 && e.Seq != last+1 || there && e.From != from {
						t.Errorf("event %+v after %d, with %v", e, last, states)
					}
					states[e.Version], last = e.To, e.Seq
					if e.Version == "30" && e.To == fakebase.StateActivated {
						close(done)
					}
				})
				defer stop()
				for _, m := range now.Biz {
					states[m.Version] = m.State
				}
				over := states["30"] == fakebase.StateActivated
				mu.Unlock()
				if !over {
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
	kinds(t, func(t *testing.T, b base) {
		l := watch(t, b)
		start(t, b)
		l.until(t, kind(fakebase.EventReady))
		if got := b.Faults(); len(got) != 1 || got[0].ID != "first" {
			t.Errorf("at first: %+v", got)
		}
		var want []string
		check := func(ids ...string) { // each answer comes after what it tells of
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
			check("first", id)
			if n := b.Clear(id, "unknown/one"); n != 1 {
				t.Errorf("round %d: cleared %d", i, n)
			}
			want = append(want, id+" cleared")
			check("first")
		}
		if _, err := b.Inject(fault.Fault{ID: "first", Kind: fault.KindSilent}); err == nil ||
			!strings.Contains(err.Error(), fault.ErrExists.Error()) {
			t.Errorf("the same twice: %v", err)
		}
		install(t, b, "1") // which the first fault makes later
		l.until(t, biz("1", fakebase.StateActivated))
		if n := b.Clear(); n != 1 {
			t.Errorf("cleared %d", n)
		}
		want = append(want, "first fired", "first cleared")
		check()
	})
}

func TestRestart(t *testing.T) {
	kinds(t, func(t *testing.T, b base) {
		l := watch(t, b)
		start(t, b)
		l.until(t, kind(fakebase.EventReady))
		if err := b.Restart("a/b"); err == nil || !strings.Contains(err.Error(), `"a/b"`) {
			t.Errorf("restarted under an impossible identity: %v", err)
		}
		if err := b.Restart("b2"); err != nil {
			t.Fatal(err)
		}
		l.until(t, kind(fakebase.EventDown))
		l.until(t, kind(fakebase.EventUp))
		if got := b.Identity(); got != "b2" {
			t.Errorf("identity %q", got)
		}
	})
}

func TestWhatCannotBe(t *testing.T) {
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

// What a base tells has the times of this machine, whatever the clock of its own says.
func TestClockOfAnotherMachine(t *testing.T) {
	began := time.Now()
	b, err := remote.New(t.Context(), newProcess(t),
		remote.Options{Options: options(), Ahead: func() time.Duration { return time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	l, done := watch(t, b), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- b.Start(ctx) }()
	ready := l.until(t, kind(fakebase.EventReady))
	for what, at := range map[string]time.Time{"an event": ready.Time, "its start": b.Status().Started} {
		if earlier := began.Sub(at); earlier < 50*time.Minute || earlier > time.Hour {
			t.Errorf("%s was %s before the test, want an hour", what, earlier)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// paused answers until the base has been made, and then nothing, as a process does
// that is paused.
type paused struct{}

func (paused) RoundTrip(r *http.Request) (*http.Response, error) {
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

func TestProcessThatIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := remote.New(t.Context(), paused{}, remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Inject(fault.Fault{Kind: fault.KindSilent}); err == nil ||
			!strings.Contains(err.Error(), `"b1"`) || !strings.Contains(err.Error(), "5s") {
			t.Errorf("injected: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := b.Start(ctx); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("it ended after %s: %v", time.Since(began), err)
		}
	})
}
