package board

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// views lists all views, each with a text that the view of newRun contains, in both languages.
var views = []struct{ name, english, chinese string }{
	{"overview", "base-2", "发现的问题"},
	{"lanes", "Legend", "图例"},
	{"modules", "biz-orders", "模块与版本"},
	{"workloads", "no workloads", "工作负载"},
	{"traffic", "through the gateway", "经由网关"},
	{"log", "installBiz", "仅异常"},
	{"components", "kube-scheduler", "组件"},
}

func quote(s string) string {
	text, _ := json.Marshal(s) // strings cannot fail
	return string(text)
}

// mainContains returns a JavaScript expression that is true if the main element of the page contains the text.
func mainContains(text string) string {
	return "document.querySelector('main')?.innerText.includes(" + quote(text) + ")"
}

// axeScript returns the source of axe, a script that checks the accessibility of a page.
func axeScript(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(web + "/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("these tests need axe-core: make board-web (%v)", err)
	}
	return string(script)
}

func TestEveryViewRendersAndIsAccessible(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 3), "")
	script := axeScript(t)
	for _, l := range []viewport{{1280, 720, false, "en"}, {1920, 1080, true, "zh"}, {800, 600, true, "en"}} {
		for _, view := range views {
			name := fmt.Sprintf("%s-%dx%d-%s", view.name, l.width, l.height, l.language)
			t.Run(name, func(t *testing.T) {
				p := openPage(browser, t, f.urlWith("view="+view.name+"&sel=base:base-2"), l)
				p.waitUntilLoaded()
				text := view.english
				if l.language == "zh" {
					text = view.chinese
				}
				p.wait(mainContains(text))
				p.wait(`document.querySelector(".panel dl")`)
				if raw := get[bool](p, `/\{\w+\}/.test(document.body.innerText)`); raw {
					t.Error("a text has a placeholder without a value")
				}
				p.screenshot(name)
				p.requireAccessible(script)
				if wide := get[bool](p, "document.documentElement.scrollWidth > innerWidth"); wide {
					t.Error("the page is wider than the window")
				}
				p.requireNoErrors(f)
			})
		}
	}
}

// requireAccessible fails the test if axe reports a serious or critical violation.
func (p *page) requireAccessible(script string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(script, nil))
	p.run(chromedp.Evaluate(`window.found = undefined; axe.run().then((r) => { window.found = r.violations.filter((v) => ["serious", "critical"].includes(v.impact))
		.map((v) => v.id + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")); }); 0`, nil))
	p.wait("window.found !== undefined")
	for _, found := range get[[]string](p, "window.found") {
		p.t.Errorf("axe: %s", found)
	}
}

func TestURLContainsFilter(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 12), "")
	p := openPage(browser, t, f.urlWith("q=base-1"), viewport{})
	p.waitUntilLoaded()
	names := `[...document.querySelectorAll(".card .head b")].map((e) => e.textContent)`
	p.wait(`document.querySelectorAll(".card").length === 4`)
	if diff := cmp.Diff([]string{"base-1", "base-10", "base-11", "base-12"}, get[[]string](p, names)); diff != "" {
		t.Errorf("bases of q=base-1 (-want +got):\n%s", diff)
	}
	p.fill("#filter", "base-12")
	p.wait(`document.querySelectorAll(".card").length === 1 && location.search === "?q=base-12"`)
	p.click(".filters .link", "")
	p.wait(`document.querySelectorAll(".card").length === 12 && location.search === ""`)
	p.click(".key a.chip", "1.0.0")
	p.wait(`location.search === "?version=1.0.0"`)
	p.wait(`document.querySelectorAll(".card").length === 6`)
	p.run(chromedp.NavigateBack())
	p.wait(`document.querySelectorAll(".card").length === 12`)
	p.requireNoErrors(f)
}

// stateAt returns a JavaScript expression that evaluates to the state on the card of a base. The state is an empty
// string if the base is healthy.
func stateAt(base string) string {
	return `([...document.querySelectorAll(".card")].find((c) => c.querySelector("b").textContent === ` + quote(base) +
		`)?.querySelector(".word")?.textContent ?? "")`
}

func TestPastStates(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 5), "")
	at := func(after time.Duration) string { return strconv.FormatInt(runStart.Add(after).UnixMilli(), 10) }
	p := openPage(browser, t, f.urlWith("t="+at(15*time.Second)), viewport{})
	p.waitUntilLoaded()
	p.wait(stateAt("base-2") + ` === "disconnected"`)
	p.wait(`document.querySelector(".shown b").textContent === "10:00:15"`)
	p.screenshot("past")
	p.keys(kb.End)
	p.wait(`document.querySelector(".shown small").textContent === "ended" && location.search === ""`)
	p.wait(stateAt("base-2") + ` !== "disconnected"`)
	p.keys(kb.Home)
	p.wait(`document.querySelector(".shown b").textContent === "10:00:00"`)
	p.wait(stateAt("base-2") + ` === ""`)
	p.keys("]") // the first problem is the disconnect of base-2
	p.wait(stateAt("base-2") + ` === "disconnected" && location.search === "?t=` + at(10*time.Second) + `"`)
	p.keys(kb.ArrowLeft)
	p.wait(stateAt("base-2") + ` === "" && document.querySelector(".shown b").textContent === "10:00:09"`)
	p.run(chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(8))) // Shift
	p.wait(`document.querySelector(".shown b").textContent === "10:00:19"`)
	p.keys("6") // the log view ends with the shown time
	p.wait(`location.search.includes("view=log") && document.querySelector("td.time")?.textContent.startsWith("10:00:19")`)
	p.keys("1", ".", ".", ".", " ") // playback at ten times the speed
	p.wait(stateAt("base-2") + ` !== "disconnected" && document.querySelector(".shown small").textContent === "ended"`)
	p.requireNoErrors(f)
}

func TestKeyboardReachesAllControls(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 3), "")
	p := openPage(browser, t, f.urlWith(""), viewport{})
	p.waitUntilLoaded()
	p.keys("/")
	p.wait(`document.activeElement.id === "filter"`)
	p.fill("#filter", "") // chromedp also types keys that the page handles as shortcuts
	p.keys("2")
	p.wait(`document.getElementById("filter").value === "2" && !location.search.includes("view")`)
	p.keys(kb.Escape)
	p.wait(`document.activeElement === document.body`)
	p.keys("2")
	p.wait(`location.search.includes("view=lanes")`)
	p.keys("1", "?")
	p.wait(`document.querySelector("dialog[open]") && document.querySelectorAll("dialog kbd").length > 10`)
	p.screenshot("shortcuts")
	p.keys(kb.Escape)
	p.wait(`!document.querySelector("dialog")`)
	p.run(chromedp.Evaluate(`document.getElementById("filter").value = ""; document.activeElement.blur(); window.reached = new Set(); 0`, nil))
	for range 120 {
		p.keys(kb.Tab)
		p.run(chromedp.Evaluate(`{ const e = document.activeElement; window.reached.add(e);
			if (e !== document.body && getComputedStyle(e).outlineStyle === "none") window.unseen = e.outerHTML.slice(0, 200); } 0`, nil))
	}
	unreached := get[[]string](p,
		`[...document.querySelectorAll("a[href], button:not(:disabled), input, select:not(:disabled), [role=slider]")].filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 120))`)
	if len(unreached) > 0 {
		t.Errorf("Tab does not reach %q", unreached)
	}
	if unseen := get[string](p, `window.unseen ?? ""`); unseen != "" {
		t.Errorf("these elements have no visible focus: %s", unseen)
	}
	p.requireNoErrors(f)
}

func TestLanguageAndTheme(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 3), "")
	p := openPage(browser, t, f.urlWith(""), viewport{language: "zh-CN", dark: true})
	p.waitUntilLoaded()
	back := `getComputedStyle(document.body).backgroundColor`
	p.wait(`document.documentElement.lang === "zh" && ` + mainContains("基座"))
	dark := get[string](p, back)
	p.click(".tools button", "English")
	p.wait(`document.documentElement.lang === "en" && ` + mainContains("Bases"))
	p.run(chromedp.Evaluate(`document.querySelectorAll(".tools button")[1].click()`, nil))
	p.wait(back + " !== " + quote(dark))
	p.run(chromedp.Navigate(f.url)) // the browser stores the settings
	p.waitUntilLoaded()
	p.wait(`document.documentElement.lang === "en" && ` + back + " !== " + quote(dark))
	p.run(chromedp.Navigate(f.url + "/?lang=zh&theme=dark")) // the URL overrides them
	p.waitUntilLoaded()
	p.wait(`document.documentElement.lang === "zh" && ` + back + " === " + quote(dark))
	p.requireNoErrors(f)
}

func TestTokenIsRequired(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 3), "")
	p := openPage(browser, t, f.urlWith(""), viewport{})
	p.waitUntilLoaded()
	if hash := get[string](p, "location.hash"); hash != "" {
		t.Errorf("the token is still in the URL: %s", hash)
	}
	p.requireNoErrors(f)
	p = openPage(newBrowser(t), t, f.url, viewport{})
	p.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	p.screenshot("refused")
	p.fill("input", "wrong")
	p.keys(kb.Enter)
	p.wait(`document.querySelector("[role=alert]")?.textContent.includes("already used")`)
	p.fill("input", f.secret())
	p.keys(kb.Enter)
	p.waitUntilLoaded()
	p.wait(mainContains("base-1"))
}

func TestServerUnavailable(t *testing.T) {
	browser, f := newBrowser(t), serve(t, newRun(t, 3), "")
	p := openPage(browser, t, f.urlWith(""), viewport{})
	p.waitUntilLoaded()
	f.stop()
	p.wait(`document.querySelector("[role=alert]")?.textContent.includes("does not answer")`)
	p.wait(mainContains("base-1")) // the last known state
	p.screenshot("away")
	again := serve(t, newRun(t, 4), f.port)
	p.click(".banner button", "Try now")
	// a new server does not know the sessions of the previous one
	p.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	p.fill("input", again.secret())
	p.keys(kb.Enter)
	p.wait(mainContains("base-4"))
}

// TestThousandBases checks that the page renders a sandbox of a thousand bases.
func TestThousandBases(t *testing.T) {
	p := openPage(newBrowser(t), t, serve(t, newRun(t, 1000), "").urlWith(""), viewport{})
	p.wait(`document.querySelectorAll(".mini").length === 1000`)
	p.waitUntilLoaded()
	p.screenshot("thousand")
}
