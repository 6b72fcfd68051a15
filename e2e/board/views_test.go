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

// views are all views, with a text that each shows of the story in both languages.
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
	text, _ := json.Marshal(s) // a string can always be
	return string(text)
}

// mainHas is whether the content of the page has a text.
func mainHas(text string) string {
	return "document.querySelector('main')?.innerText.includes(" + quote(text) + ")"
}

// axe returns the script that checks the accessibility of a page.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(web + "/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("these tests need axe-core: make board-web (%v)", err)
	}
	return string(script)
}

func TestEveryViewRendersAndIsAccessible(t *testing.T) {
	browser, f := newBrowser(t), serve(t, story(t, 3), "")
	script := axe(t)
	for _, l := range []look{{1280, 720, false, "en"}, {1920, 1080, true, "zh"}, {800, 600, true, "en"}} {
		for _, view := range views {
			name := fmt.Sprintf("%s-%dx%d-%s", view.name, l.width, l.height, l.language)
			t.Run(name, func(t *testing.T) {
				p := open(browser, t, f.at("view="+view.name+"&sel=base:base-2"), l)
				p.ready()
				text := view.english
				if l.language == "zh" {
					text = view.chinese
				}
				p.wait(mainHas(text))
				p.wait(`document.querySelector(".panel dl")`)
				if raw := get[bool](p, `/\{\w+\}/.test(document.body.innerText)`); raw {
					t.Error("a text is not filled in")
				}
				p.shot(name)
				p.accessible(script)
				if wide := get[bool](p, "document.documentElement.scrollWidth > innerWidth"); wide {
					t.Error("the page is wider than the window")
				}
				p.fine(f)
			})
		}
	}
}

// accessible fails the test if axe finds something serious.
func (p *page) accessible(script string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(script, nil))
	p.run(chromedp.Evaluate(`window.found = undefined; axe.run().then((r) => { window.found = r.violations.filter((v) => ["serious", "critical"].includes(v.impact))
		.map((v) => v.id + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")); }); 0`, nil))
	p.wait("window.found !== undefined")
	for _, found := range get[[]string](p, "window.found") {
		p.t.Errorf("axe: %s", found)
	}
}

func TestTheFilterIsInTheURL(t *testing.T) {
	browser, f := newBrowser(t), serve(t, story(t, 12), "")
	p := open(browser, t, f.at("q=base-1"), look{})
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
	p.wait(`document.querySelectorAll(".card").length === 6`)
	p.run(chromedp.NavigateBack())
	p.wait(`document.querySelectorAll(".card").length === 12`)
	p.fine(f)
}

// stateAt is the word that the card of a base shows; empty if it is well.
func stateAt(base string) string {
	return `([...document.querySelectorAll(".card")].find((c) => c.querySelector("b").textContent === ` + quote(base) +
		`)?.querySelector(".word")?.textContent ?? "")`
}

func TestAnyMomentCanBeShownAgain(t *testing.T) {
	browser, f := newBrowser(t), serve(t, story(t, 5), "")
	at := func(after time.Duration) string { return strconv.FormatInt(began.Add(after).UnixMilli(), 10) }
	p := open(browser, t, f.at("t="+at(15*time.Second)), look{})
	p.ready()
	p.wait(stateAt("base-2") + ` === "disconnected"`)
	p.wait(`document.querySelector(".shown b").textContent === "10:00:15"`)
	p.shot("past")
	p.keys(kb.End)
	p.wait(`document.querySelector(".shown small").textContent === "live" && location.search === ""`)
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
	p.wait(stateAt("base-2") + ` !== "disconnected" && document.querySelector(".shown small").textContent === "live"`)
	p.fine(f)
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	browser, f := newBrowser(t), serve(t, story(t, 3), "")
	p := open(browser, t, f.at(""), look{})
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
	unreached := get[[]string](p,
		`[...document.querySelectorAll("a[href], button:not(:disabled), input, select:not(:disabled), [role=slider]")].filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 120))`)
	if len(unreached) > 0 {
		t.Errorf("Tab does not reach %q", unreached)
	}
	if unseen := get[string](p, `window.unseen ?? ""`); unseen != "" {
		t.Errorf("nobody sees that this has the focus: %s", unseen)
	}
	p.fine(f)
}

func TestLanguageAndTheme(t *testing.T) {
	browser, f := newBrowser(t), serve(t, story(t, 3), "")
	p := open(browser, t, f.at(""), look{language: "zh-CN", dark: true})
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
	browser, f := newBrowser(t), serve(t, story(t, 3), "")
	p := open(browser, t, f.at(""), look{})
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
	p.wait(`document.querySelector("[role=alert]")?.textContent.includes("was used already")`)
	p.fill("input", f.secret())
	p.keys(kb.Enter)
	p.ready()
	p.wait(mainHas("base-1"))
}

func TestAServerThatIsAway(t *testing.T) {
	browser, f := newBrowser(t), serve(t, story(t, 3), "")
	p := open(browser, t, f.at(""), look{})
	p.ready()
	f.stop()
	p.wait(`document.querySelector("[role=alert]")?.textContent.includes("does not answer")`)
	p.wait(mainHas("base-1")) // the last known state
	p.shot("away")
	again := serve(t, story(t, 4), f.port)
	p.click(".banner button", "Try now")
	// another server has other sessions
	p.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	p.fill("input", again.secret())
	p.keys(kb.Enter)
	p.wait(mainHas("base-4"))
}

// A page of a thousand bases is drawn.
func TestAThousandBases(t *testing.T) {
	p := open(newBrowser(t), t, serve(t, story(t, 1000), "").at(""), look{})
	p.wait(`document.querySelectorAll(".mini").length === 1000`)
	p.ready()
	p.shot("thousand")
}
