package board

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// views are all views, with what each has to say of the story, and something to be clicked.
var views = []struct{ name, english, chinese, sel string }{
	{"overview", "base-2", "发现的问题", "base:base-2"},
	{"lanes", "Legend", "图例", ""},
	{"modules", "biz-orders", "模块与版本", ""},
	{"workloads", "rolling out", "工作负载", "workload:statefulset/default/biz-ledger"},
	{"traffic", "through the gateway", "经由网关", ""},
	{"log", "installBiz", "仅异常", ""},
	{"components", "kube-scheduler", "组件", ""},
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string can always be
	return string(text)
}

// mainHas is whether the content of the page has a text.
func mainHas(text string) string {
	return "document.querySelector('main')?.innerText.includes(" + quote(text) + ")"
}

func TestEveryViewRendersAndIsAccessible(t *testing.T) {
	browser, f := newBrowser(t), still(t, "3")
	axe, err := os.ReadFile(web + "/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("these tests need axe-core: make board-web (%v)", err)
	}
	for _, l := range []look{{1280, 720, false, "en"}, {1920, 1080, true, "zh"}, {800, 600, true, "en"}} {
		for _, view := range views {
			for _, sel := range slices.Compact([]string{"", view.sel}) {
				name := fmt.Sprintf("%s-%dx%d-%s", view.name, l.width, l.height, l.language)
				if sel != "" {
					name, sel = name+"-panel", "&sel="+sel
				}
				t.Run(name, func(t *testing.T) {
					p := open(browser, t, f.url+"/?view="+view.name+sel, l)
					p.ready()
					text := view.english
					if l.language == "zh" {
						text = view.chinese
					}
					p.wait(mainHas(text))
					if sel != "" {
						p.wait(`document.querySelector(".cause")`)
					}
					if raw := get[bool](p, `/\{\w+\}/.test(document.body.innerText)`); raw {
						t.Error("a text is not filled in")
					}
					p.shot(name)
					p.run(chromedp.Evaluate(string(axe), nil))
					p.accessible()
					if wide := get[bool](p, "document.documentElement.scrollWidth > innerWidth"); wide {
						t.Error("the page is wider than the window")
					}
					p.fine(f)
				})
			}
		}
	}
}

// accessible fails the test if axe finds something serious.
func (p *page) accessible() {
	p.t.Helper()
	p.run(chromedp.Evaluate(`window.found = undefined; axe.run().then((r) => { window.found = r.violations.filter((v) => ["serious", "critical"].includes(v.impact))
		.map((v) => v.id + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")); }); 0`, nil))
	p.wait("window.found !== undefined")
	for _, found := range get[[]string](p, "window.found") {
		p.t.Errorf("axe: %s", found)
	}
}

func TestTheFilterIsInTheURL(t *testing.T) {
	browser, f := newBrowser(t), still(t, "12")
	p := open(browser, t, f.url+"/?q=base-1", look{})
	p.ready()
	names := `[...document.querySelectorAll(".card .head b")].map((e) => e.textContent)`
	p.wait(`document.querySelectorAll(".card").length === 4`)
	if diff := cmp.Diff([]string{"base-1", "base-10", "base-11", "base-12"}, get[[]string](p, names)); diff != "" {
		t.Errorf("q=base-1 shows others (-want +got):\n%s", diff)
	}
	p.fill("#filter", "base-12")
	p.wait(`document.querySelectorAll(".card").length === 1 && location.search === "?q=base-12"`)
	p.click(".filters .link", "")
	p.wait(`document.querySelectorAll(".card").length === 12 && location.search === ""`)
	p.click(".key a.chip", "1.0.0")
	p.wait(`location.search === "?version=1.0.0"`)
	p.wait(`((n) => n > 0 && n < 12)(document.querySelectorAll(".card").length)`) // a rollout is in its middle
	p.run(chromedp.NavigateBack())
	p.wait(`document.querySelectorAll(".card").length === 12`)
	p.fine(f)
}

// stateAt is the word that the card of a base shows; empty if it is well.
func stateAt(base string) string {
	return `([...document.querySelectorAll(".card")].find((c) => c.querySelector("b").textContent === ` + quote(base) + `)?.querySelector(".word")?.textContent ?? "")`
}

func TestAnyMomentCanBeShownAgain(t *testing.T) {
	browser, f := newBrowser(t), still(t, "5")
	at := func(after time.Duration) string { return strconv.FormatInt(story.Add(after).UnixMilli(), 10) }
	p := open(browser, t, f.url+"/?t="+at(15*time.Second), look{})
	p.ready()
	p.wait(stateAt("base-2") + ` === "disconnected"`)
	p.wait(`document.querySelector(".shown b").textContent === "10:00:15"`)
	p.shot("past")
	p.keys(kb.End)
	p.wait(`document.querySelector(".status").textContent === "live" && location.search === ""`)
	p.wait(stateAt("base-2") + ` !== "disconnected"`)
	p.keys(kb.Home)
	p.wait(`document.querySelector(".shown b").textContent === "10:00:00"`)
	p.wait(stateAt("base-2") + ` === ""`)
	p.keys("]") // what goes wrong first is that base
	p.wait(stateAt("base-2") + ` === "disconnected" && location.search === "?t=` + at(10*time.Second) + `"`)
	p.keys(kb.ArrowLeft)
	p.wait(stateAt("base-2") + ` === "" && document.querySelector(".shown b").textContent === "10:00:09"`)
	p.run(chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(8))) // Shift
	p.wait(`document.querySelector(".shown b").textContent === "10:00:19"`)
	p.keys("6") // the log of the moment ends with it
	p.wait(`location.search.includes("view=log") && document.querySelector("td.time")?.textContent.startsWith("10:00:19")`)
	p.keys("1", ".", ".", ".", " ") // ten times as fast
	p.wait(stateAt("base-2") + ` !== "disconnected" && document.querySelector(".status").textContent === "live"`)
	p.fine(f)
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	browser, f := newBrowser(t), still(t, "3")
	p := open(browser, t, f.url, look{})
	p.ready()
	p.keys("/")
	p.wait(`document.activeElement.id === "filter"`)
	p.fill("#filter", "") // the driver types a key even where the page has taken it
	p.keys("2")
	p.wait(`document.getElementById("filter").value === "2" && !location.search.includes("view")`)
	p.keys(kb.Escape)
	p.wait(`document.activeElement === document.body`)
	p.keys("2")
	p.wait(`location.search.includes("view=lanes")`)
	p.keys("1", "?")
	p.wait(`document.querySelector("dialog[open]") && document.querySelectorAll("dialog kbd").length > 10`)
	p.shot("shortcuts")
	p.keys(kb.Escape)
	p.wait(`!document.querySelector("dialog")`)
	p.run(chromedp.Evaluate(`document.getElementById("filter").value = ""; document.activeElement.blur(); window.reached = new Set(); 0`, nil))
	for range 120 {
		p.keys(kb.Tab)
		p.run(chromedp.Evaluate(`{ const e = document.activeElement; window.reached.add(e);
			if (e !== document.body && getComputedStyle(e).outlineStyle === "none") window.unseen = e.outerHTML.slice(0, 200); } 0`, nil))
	}
	unreached := get[[]string](p, `[...document.querySelectorAll("a[href], button:not(:disabled), input, select:not(:disabled), [role=slider]")].filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 120))`)
	if len(unreached) > 0 {
		t.Errorf("Tab does not reach %q", unreached)
	}
	if unseen := get[string](p, `window.unseen ?? ""`); unseen != "" {
		t.Errorf("nobody sees that this has the focus: %s", unseen)
	}
	p.fine(f)
}

func TestLanguageAndTheme(t *testing.T) {
	browser, f := newBrowser(t), still(t, "3")
	p := open(browser, t, f.url, look{language: "zh-CN", dark: true})
	p.ready()
	back := `getComputedStyle(document.body).backgroundColor`
	p.wait(`document.documentElement.lang === "zh" && ` + mainHas("基座"))
	dark := get[string](p, back)
	p.click(".tools button", "English")
	p.wait(`document.documentElement.lang === "en" && ` + mainHas("Bases"))
	p.run(chromedp.Evaluate(`document.querySelectorAll(".tools button")[1].click()`, nil))
	p.wait(back + " !== " + quote(dark))
	p.run(chromedp.Navigate(f.url)) // it is remembered
	p.ready()
	p.wait(`document.documentElement.lang === "en" && ` + back + " !== " + quote(dark))
	p.run(chromedp.Navigate(f.url + "/?lang=zh&theme=dark")) // and a URL counts more
	p.ready()
	p.wait(`document.documentElement.lang === "zh" && ` + back + " === " + quote(dark))
	p.fine(f)
}

func TestNobodyLooksWithoutTheToken(t *testing.T) {
	browser, f := newBrowser(t), still(t, "3", "--token", "right")
	p := open(browser, t, f.url+"/#token=right", look{})
	p.ready()
	if hash := get[string](p, "location.hash"); hash != "" {
		t.Errorf("the token is still in the URL: %s", hash)
	}
	p.fine(f)
	p = open(newBrowser(t), t, f.url, look{})
	p.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	p.shot("refused")
	p.fill("input", "wrong")
	p.keys(kb.Enter)
	p.wait(`document.querySelector("[role=alert]")?.textContent.includes("not known")`)
	p.fill("input", "right")
	p.keys(kb.Enter)
	p.ready()
	p.wait(mainHas("base-1"))
}

func TestAServerThatIsAway(t *testing.T) {
	browser, f := newBrowser(t), still(t, "3")
	p := open(browser, t, f.url, look{})
	p.ready()
	f.stop()
	p.wait(`document.querySelector("[role=alert]")?.textContent.includes("does not answer")`)
	p.wait(mainHas("base-1")) // what was known is still there
	p.shot("away")
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	again := still(t, "4", "--port", u.Port())
	p.click(".banner button", "Try now")
	p.wait(`!document.querySelector("[role=alert]") && document.querySelector(".status").textContent === "live"`)
	answer, err := http.Get(again.url + "/test/drop?epoch=other")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	p.wait(mainHas("base-4")) // another server: nothing of the one before is left
}

func TestAClickSaysWhyAndActs(t *testing.T) {
	browser, f := newBrowser(t), still(t, "3")
	p := open(browser, t, f.url, look{})
	p.ready()
	p.click(".card", "base-2")
	p.wait(`document.querySelector(".cause")?.textContent.includes("InstallFailed") && location.search === "?sel=base%3Abase-2"`)
	p.wait(`document.querySelector(".command code").textContent.includes("kubectl describe")`)
	p.click(".actions button", "Set a fault")
	p.wait(`document.querySelector("dialog output")?.textContent === "base-2"`)
	p.shot("action")
	p.fill("dialog input", "never")
	p.click("dialog .main", "Do it")
	p.wait(`document.querySelector("dialog [role=alert]")?.textContent.includes("is no time")`)
	p.fill("dialog input", "30s")
	p.click("dialog .main", "Do it")
	p.wait(`document.querySelector("dialog [role=status]")?.textContent === "done: fault.set base-2 disconnect 30s"`)
	p.keys(kb.Escape, kb.Escape)
	p.wait(`!document.querySelector("dialog, .panel") && location.search === ""`)
	q := open(browser, t, still(t, "3", "--look").url+"/?sel=base:base-2", look{})
	q.ready()
	q.wait(`document.querySelector(".looks") && document.querySelector(".cause")`)
	if n := get[int](q, `document.querySelectorAll(".actions button").length`); n != 0 {
		t.Errorf("a board that only looks offers %d actions", n)
	}
}

// A page of a thousand bases with a module each is painted.
func TestAThousandBases(t *testing.T) {
	p := open(newBrowser(t), t, serve(t, "--bases", "1000", "--modules", "1000", "--ahead", "30").url, look{})
	p.wait(`document.querySelectorAll(".basemap canvas").length === 3`)
	p.ready()
	p.shot("thousand")
}
