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
	problems []string // errors in the browser console
}

// newFirefox starts headless Firefox with a temporary profile.
func newFirefox(t *testing.T) *firefox {
	t.Helper()
	binary, err := exec.LookPath("firefox-esr")
	if err != nil {
		binary, err = exec.LookPath("firefox")
	}
	if err != nil {
		t.Skip("*** THE WEB UI IS NOT TESTED IN FIREFOX: install it, for example Debian's package firefox-esr ***")
	}
	profile := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(`user_pref("app.update.enabled", false);`),
		0o600))
	cmd := exec.Command(binary, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0",
		"about:blank")
	cmd.Env = append(cmd.Environ(), "TZ=UTC", "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	stderr, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	readDone := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-readDone
		_ = cmd.Wait() // the error of a killed process
	})
	address := make(chan string, 1)
	go func() {
		defer close(readDone)
		lines := bufio.NewScanner(stderr)
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
		t.Fatal("Firefox did not start")
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	f.call("session.new", `{"capabilities": {}}`, nil)
	f.call("session.subscribe", `{"events": ["log.entryAdded"]}`, nil)
	var tab struct{ Context string }
	f.call("browsingContext.create", `{"type": "tab"}`, &tab)
	f.context = tab.Context
	f.call("browsingContext.setViewport",
		`{"context": `+quote(f.context)+`, "viewport": {"width": 1280, "height": 720}}`, nil)
	return f
}

// call sends a command and waits for its response. While it waits, it records errors of the browser console in
// problems.
func (f *firefox) call(method, params string, answer any) {
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
	f.call("browsingContext.navigate", `{"context": `+quote(f.context)+`, "url": `+quote(url)+`, "wait": "complete"}`,
		nil)
}

// isTrue reports whether a JavaScript expression evaluates to true.
func (f *firefox) isTrue(expression string) bool {
	f.t.Helper()
	var answer struct{ Result struct{ Value any } }
	f.call("script.evaluate", `{"expression": `+quote("Boolean("+expression+")")+
		`, "awaitPromise": false, "target": {"context": `+quote(f.context)+`}}`, &answer)
	return answer.Result.Value == true
}

func (f *firefox) wait(expression string) {
	f.t.Helper()
	check.Eventually(f.t.Context(), f.t, pageTime, expression, func(context.Context) error {
		if !f.isTrue(expression) {
			return errors.New("the expression is false")
		}
		return nil
	})
}

// click clicks the first element that matches the selector and contains the text.
func (f *firefox) click(selector, text string) {
	f.t.Helper()
	find := "[...document.querySelectorAll(" + quote(selector) + ")].find((e) => e.textContent.includes(" +
		quote(text) + "))"
	f.wait(find)
	f.isTrue("(" + find + ".click(), true)")
}

func (f *firefox) keys(keys ...string) {
	f.t.Helper()
	for _, key := range keys {
		f.call("input.performActions",
			`{"context": `+quote(f.context)+`, "actions": [{"type": "key", "id": "keyboard", "actions": [
			{"type": "keyDown", "value": `+quote(key)+`}, {"type": "keyUp", "value": `+quote(key)+`}]}]}`, nil)
	}
}

// requireNoErrors fails the test if the browser console contains errors, and then clears the recorded errors.
func (f *firefox) requireNoErrors() {
	f.t.Helper()
	for _, problem := range f.problems {
		f.t.Errorf("console: %s", problem)
	}
	f.problems = nil
}

// TestFirefox checks that Firefox renders every view and past states, and that the page shows no data without the
// token.
func TestFirefox(t *testing.T) {
	f := newFirefox(t)
	ready := `document.querySelector(".shown small") && !document.querySelector(".shown small").textContent.includes("loading")`
	platform := serve(t, newRun(t, 3), "")
	f.open(platform.url)
	f.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	f.problems = nil // the console contains the rejected request
	// a different query, because a change of the hash does not reload the page
	f.open(platform.urlWith("view=overview"))
	f.wait(ready)
	for _, view := range views {
		f.open(platform.url + "/?view=" + view.name)
		f.wait(ready)
		f.wait(mainContains(view.english))
	}
	f.open(platform.url + "/?view=lanes")
	f.wait(ready)
	f.wait(`(() => { const c = document.querySelector(".lanes canvas"), pixels = new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)); return pixels.size > 20; })()`)
	f.requireNoErrors()

	const home, left = "\ue011", "\ue012"
	f.open(platform.url)
	f.wait(ready)
	f.keys(home)
	f.wait(`document.querySelector(".shown b").textContent === "10:00:00"`)
	f.keys("]") // jump to the first problem
	f.wait(`document.querySelector(".shown b").textContent === "10:00:10"`)
	f.keys(left)
	f.wait(`document.querySelector(".shown b").textContent === "10:00:09"`)
	f.click(".card", "base-2")
	f.wait(`document.querySelector(".panel dl")`)
	f.requireNoErrors()
}
