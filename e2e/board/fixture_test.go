package board

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/board"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// web is the directory of the web UI.
const web = "../../sandbox/board/web"

// pageTime is how long each wait for the page may take.
const pageTime = time.Minute

// runStart is the start time of the run from newRun.
var runStart = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// fixture is a board that shows a finished run.
type fixture struct {
	url  string
	port string
	stop func()

	mu    sync.Mutex
	token string
}

// newRun returns a run that takes one minute. Half of the bases get a new version of a module. base-2 is disconnected
// from 10 s to 30 s, and the broker is paused from 34 s to 39 s.
func newRun(t testing.TB, bases int) *scenario.Run {
	t.Helper()
	run := &scenario.Run{Scenario: "story", Namespace: "story-1", Result: scenario.Passed, Started: runStart,
		Elapsed: time.Minute}
	add := func(after time.Duration, e events.Event) {
		e.Time = runStart.Add(after)
		run.Timeline = append(run.Timeline, e)
	}
	component := func(after time.Duration, name string, state events.ComponentState) {
		add(after, events.Event{Component: &events.ComponentEvent{Name: name, State: state}})
	}
	base := func(after time.Duration, name string, changes ...events.BaseChange) {
		for _, change := range changes {
			add(after, events.Event{Base: &events.BaseEvent{Base: name, Identity: "id-" + name, Change: change}})
		}
	}
	module := func(after time.Duration, base, version string, states ...events.ModuleState) {
		for _, state := range states {
			ref := events.ModuleRef{Name: "biz-orders", Version: version}
			add(after, events.Event{Module: &events.ModuleEvent{Base: base, ModuleRef: ref, State: state}})
		}
	}
	for _, name := range []string{"broker", "kube-apiserver", "kube-scheduler"} {
		component(0, name, events.ComponentRunning)
	}
	for i := range bases {
		name := fmt.Sprintf("base-%d", i+1)
		base(0, name, events.BaseUp, events.BaseReady, events.BaseConnected)
		module(0, name, "1.0.0", events.ModuleResolved, events.ModuleActivated)
	}
	for i := range 60 { // in chronological order
		at := time.Duration(i) * time.Second
		switch i {
		case 10:
			base(at, "base-2", events.BaseDisconnected)
		case 30:
			base(at, "base-2", events.BaseConnected)
		case 34:
			component(at, "broker", events.ComponentPaused)
		case 39:
			component(at, "broker", events.ComponentRunning)
		case 45:
			for i := range bases / 2 {
				name := fmt.Sprintf("base-%d", i+1)
				module(at, name, "2.0.0", events.ModuleResolved, events.ModuleActivated)
				module(at, name, "1.0.0", events.ModuleDeactivated, events.ModuleStopped)
			}
		}
		add(at, events.Event{Command: &events.CommandEvent{Base: "base-1", Name: events.CommandInstall,
			Module: events.ModuleRef{Name: "biz-orders", Version: "1.0.0"}}})
	}
	const stream = `[{"name": "shoppers", "route": "gateway", "sent": 20, "results": {"ok": 20}, "started": %[1]q, "ended": %[2]q,
		"seconds": [{"start": %[1]q, "sent": 20, "versions": {"1.0.0": 20}}]}]`
	at := func(d time.Duration) string { return runStart.Add(d).Format(time.RFC3339) }
	check.Must(t, json.Unmarshal(fmt.Appendf(nil, stream, at(time.Second), at(2*time.Second)), &run.Traffic))
	return run
}

// serve serves the board of a run until the test ends. If port is empty, serve selects a free port.
func serve(t testing.TB, run *scenario.Run, port string) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	check.Must(t, err)
	f := &fixture{url: "http://" + l.Addr().String()}
	_, f.port, err = net.SplitHostPort(l.Addr().String())
	check.Must(t, err)
	b, err := board.New(board.Options{Run: run, Listener: l, Opened: func(address string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		_, f.token, _ = strings.Cut(address, "#token=")
	}})
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// secret returns the token for the next session.
func (f *fixture) secret() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// urlWith returns the board URL with the given query and with a token that starts a new session.
func (f *fixture) urlWith(query string) string { return f.url + "/?" + query + "#token=" + f.secret() }

// newBrowser starts headless Chromium with a temporary profile.
func newBrowser(t testing.TB) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("these tests need Chromium, for example Debian's package chromium: %v", err)
	}
	return ctx
}

// page is a page in Chromium. It records the errors of the page and the hosts to which the page sends requests.
type page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	hosts    map[string]bool
}

// viewport contains the window size and the language of a browser. Zero values mean 1280x720 and English.
type viewport struct {
	width, height int64
	dark          bool
	language      string
}

// openPage opens a URL in a new tab.
func openPage(browser context.Context, t testing.TB, url string, l viewport) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx, hosts: map[string]bool{}}
	if err := chromedp.Run(ctx); err != nil { // without a timeout: the tab is closed with this context
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, p.observe)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	if l.width == 0 {
		l.width, l.height = 1280, 720
	}
	if l.language == "" {
		l.language = "en-US"
	}
	p.run(cdppage.BringToFront(), network.Enable(), cdplog.Enable(), // a tab in the background renders nothing

		emulation.SetEmulatedMedia().WithFeatures(
			[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetUserAgentOverride("test").WithAcceptLanguage(l.language), emulation.SetTimezoneOverride("UTC"),
		chromedp.EmulateViewport(l.width, l.height), chromedp.Navigate(url))
	return p
}

func (p *page) observe(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, e.ExceptionDetails.Error())
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError {
			p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if host, _, found := strings.Cut(strings.TrimPrefix(e.Request.URL, "http://"), "/"); found {
			p.hosts[host] = true
		}
	}
}

// requireNoErrors fails the test if the page had an error, violated the content security policy, or sent a request to
// another server.
func (p *page) requireNoErrors(f *fixture) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		p.t.Errorf("error in the page: %s", problem)
	}
	if hosts := slices.Collect(maps.Keys(p.hosts)); len(hosts) != 1 ||
		hosts[0] != strings.TrimPrefix(f.url, "http://") {
		p.t.Errorf("the page sent requests to %q; want only %s", hosts, f.url)
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTime)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// errNavigated is the error that Chromium returns for an expression if the page navigates during the evaluation.
const errNavigated = "Cannot find context with specified id"

// wait blocks until a JavaScript expression is true. After pageTime, it fails the test.
func (p *page) wait(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTime)
	defer cancel()
	poll := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond))
	err := chromedp.Run(ctx, poll)
	for err != nil && strings.Contains(err.Error(), errNavigated) {
		err = chromedp.Run(ctx, poll)
	}
	if err != nil {
		var text string
		textCtx, end := context.WithTimeout(p.ctx, time.Second)
		defer end()
		_ = chromedp.Run(textCtx, chromedp.Evaluate("document.body.innerText", &text)) // best effort, for the message
		p.t.Fatalf("waiting for %s: %v; the page shows:\n%s", expression, err, text)
	}
}

// waitUntilLoaded waits until the page has loaded the current and the past state.
func (p *page) waitUntilLoaded() {
	p.t.Helper()
	p.wait(`document.querySelector(".shown small") && !/loading|加载/.test(document.querySelector(".shown small").textContent)`)
}

// get evaluates a JavaScript expression and returns its value.
func get[T any](p *page, expression string) (value T) {
	p.t.Helper()
	p.run(chromedp.Evaluate(expression, &value))
	return value
}

// click clicks the first element that matches the selector and contains the text. An empty text matches any element.
func (p *page) click(selector, text string) {
	p.t.Helper()
	find := "[...document.querySelectorAll(" + quote(selector) + ")].find((e) => e.textContent.includes(" +
		quote(text) + "))"
	p.wait(find)
	p.run(chromedp.Evaluate(find+".click()", nil))
}

// fill replaces the text of a field.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(`{ const e = document.querySelector(`+quote(selector)+`); e.focus(); e.value = `+
		quote(text)+`; e.dispatchEvent(new Event("input", { bubbles: true })); } 0`, nil))
}

func (p *page) keys(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.run(chromedp.KeyEvent(k))
	}
}

// screenshot saves a screenshot of the page.
func (p *page) screenshot(name string) {
	p.t.Helper()
	var picture []byte
	p.run(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(screenshotDir(), name+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

var screenshotDir = sync.OnceValue(func() string {
	folder, err := check.Artifacts("..", "board")
	if err != nil {
		panic(err)
	}
	return folder
})
