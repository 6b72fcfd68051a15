package board

import (
	"bufio"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
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
	"github.com/evanw/esbuild/pkg/api"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// web is the folder of the page, and of the made-up platform that it is shown with here.
const web = "../../sandbox/board/web"

// pageTime is how long the page may take for what a test waits for, beside other tests on two processors.
const pageTime = time.Minute

// fixtureProgram bundles the made-up platform once.
var fixtureProgram = sync.OnceValue(func() string {
	folder, err := os.MkdirTemp("", "board")
	if err != nil {
		panic(err)
	}
	program := filepath.Join(folder, "serve.mjs")
	built := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(web, "fixtures/serve.ts")}, Outfile: program, Bundle: true, Write: true,
		Platform: api.PlatformNode, Format: api.FormatESModule, Target: api.ES2022,
	})
	if len(built.Errors) > 0 {
		panic(built.Errors[0].Text)
	}
	return program
})

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(filepath.Dir(fixtureProgram())) // a folder for temporary files
	os.Exit(code)
}

// fixture is a server of a made-up platform, with the bundle that is committed.
type fixture struct {
	url  string
	stop func()
}

// story begins at a fixed time, so that tests know what was when: at 4 s a fault is set on the base
// that will fail, at 10 s another base is disconnected for 20 s, at 34 s the broker is paused for 5 s.
var story = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func serve(t testing.TB, args ...string) *fixture {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("these tests need Node.js, for a made-up platform: %v", err)
	}
	cmd := exec.Command(node, append([]string{fixtureProgram(), "--pages", filepath.Join(web, "dist")}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = in.Close() // it ends with it
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // however it ended
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the made-up platform does not start: %v", err)
	}
	return &fixture{url: strings.TrimSpace(line), stop: stop}
}

// still has a platform that stands at the end of a story of some seconds.
func still(t testing.TB, bases string, args ...string) *fixture {
	return serve(t, append([]string{"--bases", bases, "--modules", "3", "--ahead", "60", "--still", "--start", story.Add(time.Minute).Format(time.RFC3339)}, args...)...)
}

// newBrowser starts Chromium without a window, with a profile of its own that is removed with it.
func newBrowser(t testing.TB) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("these tests need Chromium, such as Debian's package chromium: %v", err)
	}
	return ctx
}

// page is a page in a browser, and what went wrong in it.
type page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	hosts    map[string]bool
}

type look struct {
	width, height int64
	dark          bool
	language      string
}

// open opens a page.
func open(browser context.Context, t testing.TB, url string, l look) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx, hosts: map[string]bool{}}
	if err := chromedp.Run(ctx); err != nil { // without a limit: the tab lives as long as this context
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
	p.run(cdppage.BringToFront(), network.Enable(), cdplog.Enable(), // a page behind another one draws nothing

		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
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

// fine fails the test if something went wrong in the page, the policy against foreign code was
// violated, or it asked somebody else than its server.
func (p *page) fine(f *fixture) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		p.t.Errorf("in the page: %s", problem)
	}
	if hosts := slices.Collect(maps.Keys(p.hosts)); len(hosts) != 1 || hosts[0] != strings.TrimPrefix(f.url, "http://") {
		p.t.Errorf("the page has asked %q, and its server is %s", hosts, f.url)
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

// loading is what Chromium says when a page is loaded in the place of the one that was asked.
const loading = "Cannot find context with specified id"

// wait waits until an expression of JavaScript is true.
func (p *page) wait(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageTime)
	defer cancel()
	look := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond))
	err := chromedp.Run(ctx, look)
	for err != nil && strings.Contains(err.Error(), loading) {
		err = chromedp.Run(ctx, look)
	}
	if err != nil {
		var text string
		says, end := context.WithTimeout(p.ctx, time.Second)
		defer end()
		_ = chromedp.Run(says, chromedp.Evaluate("document.body.innerText", &text)) // says more, if it can
		p.t.Fatalf("waiting for %s: %v; the page shows:\n%s", expression, err, text)
	}
}

// ready waits until everything is loaded, the past too.
func (p *page) ready() {
	p.t.Helper()
	p.wait(`document.querySelector(".shown small") && !/loading|加载/.test(document.querySelector(".shown small").textContent)`)
}

// get returns what an expression of JavaScript says.
func get[T any](p *page, expression string) (value T) {
	p.t.Helper()
	p.run(chromedp.Evaluate(expression, &value))
	return value
}

// click clicks the first element of a selector that has a text; empty = any.
func (p *page) click(selector, text string) {
	p.t.Helper()
	find := "[...document.querySelectorAll(" + quote(selector) + ")].find((e) => e.textContent.includes(" + quote(text) + "))"
	p.wait(find)
	p.run(chromedp.Evaluate(find+".click()", nil))
}

// fill writes a text into a field, in the place of what is there.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(`{ const e = document.querySelector(`+quote(selector)+`); e.focus(); e.value = `+quote(text)+`; e.dispatchEvent(new Event("input", { bubbles: true })); } 0`, nil))
}

func (p *page) keys(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.run(chromedp.KeyEvent(k))
	}
}

// shot keeps a picture of the page.
func (p *page) shot(name string) {
	p.t.Helper()
	var picture []byte
	p.run(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(shots(), name+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

var shots = sync.OnceValue(func() string {
	folder, err := check.Artifacts("..", "board")
	if err != nil {
		panic(err)
	}
	return folder
})
