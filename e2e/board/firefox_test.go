package board

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// firefox is a tab of Firefox, driven by WebDriver BiDi, https://www.w3.org/TR/webdriver-bidi/.
type firefox struct {
	t        *testing.T
	conn     net.Conn
	ids      int
	context  string
	problems []string // that its console told
}

// newFirefox starts Firefox without a window, with a profile of its own that is removed with it.
func newFirefox(t *testing.T) *firefox {
	t.Helper()
	program, err := exec.LookPath("firefox-esr")
	if err != nil {
		program, err = exec.LookPath("firefox")
	}
	if err != nil {
		t.Skip("*** NOTHING SHOWS THAT THE BOARD WORKS IN FIREFOX: install it, such as Debian's package " +
			"firefox-esr ***")
	}
	profile := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(`user_pref("app.update.enabled", false);`),
		0o600))
	cmd := exec.Command(program, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0",
		"about:blank")
	cmd.Env = append(cmd.Environ(), "TZ=UTC", "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	says, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	told := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-told
		_ = cmd.Wait() // it was killed
	})
	address := make(chan string, 1)
	go func() {
		defer close(told)
		lines := bufio.NewScanner(says)
		for lines.Scan() {
			if _, at, found := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); found {
				address <- at
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*pageTime)
	defer cancel()
	f := &firefox{t: t}
	select {
	case at := <-address:
		f.conn, _, _, err = ws.Dial(ctx, at+"/session")
		check.Must(t, err)
	case <-ctx.Done():
		t.Fatal("Firefox does not start")
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	f.say("session.new", `{"capabilities": {}}`, nil)
	f.say("session.subscribe", `{"events": ["log.entryAdded"]}`, nil)
	var tab struct{ Context string }
	f.say("browsingContext.create", `{"type": "tab"}`, &tab)
	f.context = tab.Context
	f.say("browsingContext.setViewport",
		`{"context": `+quote(f.context)+`, "viewport": {"width": 1280, "height": 720}}`, nil)
	return f
}

// call sends a command and waits for its response. In the meantime it records the messages of the console.
func (f *firefox) say(method, params string, answer any) {
	f.t.Helper()
	f.ids++
	check.Must(f.t, wsutil.WriteClientText(f.conn,
		fmt.Appendf(nil, `{"id": %d, "method": %q, "params": %s}`, f.ids, method, params)))
	for {
		data, err := wsutil.ReadServerText(f.conn)
		check.Must(f.t, err)
		var m struct {
			ID             int
			Method, Type   string
			Error, Message string
			Result         json.RawMessage
			Params         struct{ Level, Text string }
		}
		check.Must(f.t, json.Unmarshal(data, &m))
		switch {
		case m.Method == "log.entryAdded" && m.Params.Level == "error":
			f.problems = append(f.problems, m.Params.Text)
		case m.ID != f.ids || m.Method != "":
		case m.Type == "error":
			f.t.Fatalf("%s: %s: %s", method, m.Error, m.Message)
		default:
			if answer != nil {
				check.Must(f.t, json.Unmarshal(m.Result, answer))
			}
			return
		}
	}
}

func (f *firefox) open(url string) {
	f.t.Helper()
	f.say("browsingContext.navigate", `{"context": `+quote(f.context)+`, "url": `+quote(url)+`, "wait": "complete"}`,
		nil)
}

// is reports whether a JavaScript expression is true.
func (f *firefox) is(expression string) bool {
	f.t.Helper()
	var answer struct{ Result struct{ Value any } }
	f.say("script.evaluate", `{"expression": `+quote("Boolean("+expression+")")+
		`, "awaitPromise": false, "target": {"context": `+quote(f.context)+`}}`, &answer)
	return answer.Result.Value == true
}

func (f *firefox) wait(expression string) {
	f.t.Helper()
	check.Eventually(f.t.Context(), f.t, pageTime, expression, func(context.Context) error {
		if !f.is(expression) {
			return errors.New("it is not so")
		}
		return nil
	})
}

// click presses the first element of a selector that has a text.
func (f *firefox) click(selector, text string) {
	f.t.Helper()
	find := "[...document.querySelectorAll(" + quote(selector) + ")].find((e) => e.textContent.includes(" +
		quote(text) + "))"
	f.wait(find)
	f.is("(" + find + ".click(), true)")
}

func (f *firefox) keys(keys ...string) {
	f.t.Helper()
	for _, key := range keys {
		f.say("input.performActions",
			`{"context": `+quote(f.context)+`, "actions": [{"type": "key", "id": "keyboard", "actions": [
			{"type": "keyDown", "value": `+quote(key)+`}, {"type": "keyUp", "value": `+quote(key)+`}]}]}`, nil)
	}
}

// fine fails the test if the console told of errors.
func (f *firefox) fine() {
	f.t.Helper()
	for _, problem := range f.problems {
		f.t.Errorf("in the page: %s", problem)
	}
	f.problems = nil
}

// Every view is drawn in Firefox, and the past is shown again. Without the token nothing is shown.
func TestFirefox(t *testing.T) {
	f := newFirefox(t)
	ready := `document.querySelector(".shown small") && !document.querySelector(".shown small").textContent.includes("loading")`
	platform := serve(t, story(t, 3), "")
	f.open(platform.url)
	f.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	f.problems = nil                     // the console shows that the page was refused
	f.open(platform.at("view=overview")) // another query: a hash alone would not load it again
	f.wait(ready)
	for _, view := range views {
		f.open(platform.url + "/?view=" + view.name)
		f.wait(ready)
		f.wait(mainHas(view.english))
	}
	f.open(platform.url + "/?view=lanes")
	f.wait(ready)
	f.wait(`(() => { const c = document.querySelector(".lanes canvas"), pixels = new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)); return pixels.size > 20; })()`)
	f.fine()

	const home, left = "\ue011", "\ue012"
	f.open(platform.url)
	f.wait(ready)
	f.keys(home)
	f.wait(`document.querySelector(".shown b").textContent === "10:00:00"`)
	f.keys("]") // to the first problem
	f.wait(`document.querySelector(".shown b").textContent === "10:00:10"`)
	f.keys(left)
	f.wait(`document.querySelector(".shown b").textContent === "10:00:09"`)
	f.click(".card", "base-2")
	f.wait(`document.querySelector(".panel dl")`)
	f.fine()
}
