package board

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// startBoard creates a sandbox and runs koupsandbox board for it.
func startBoard(t *testing.T) (address string, b *box.Box) {
	t.Helper()
	ctx := context.Background()
	b, err := box.New("board")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	two := 2
	if err := b.Up(ctx, v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: &two, BaseName: "shop"}}}); err != nil {
		t.Fatal(err)
	}
	cmd := b.Command(ctx, "board", "--name", b.Name, "--no-open", "-o", "json", "--scenarios", "testdata/scenarios")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // Ctrl-C
		if err := cmd.Wait(); err != nil {
			t.Errorf("koupsandbox board failed: %v", err)
		}
	})
	var printed struct{ URL string }
	if err := json.NewDecoder(out).Decode(&printed); err != nil {
		t.Fatal(err)
	}
	return printed.URL, b
}

// liveBoard is the web UI of a running sandbox.
type liveBoard struct {
	*page
	root string
	box  *box.Box
	up   *sandbox.Sandbox
	api  kubernetes.Interface
}

// show opens the page with the given query.
func (r *liveBoard) show(query string) {
	r.t.Helper()
	r.run(chromedp.Navigate(r.root + "/?" + query))
	r.waitUntilLoaded()
}

// runAction clicks the button of an action, fills in its fields, and returns the message of the result.
func (r *liveBoard) runAction(button string, values map[string]string) string {
	r.t.Helper()
	r.click(".actions button", button)
	r.wait(`document.querySelector("dialog[open] .main")`)
	for name, value := range values {
		r.run(chromedp.Evaluate(
			`{ const e = [...document.querySelectorAll("dialog label.field")].find((l) => l.querySelector("span").textContent.startsWith(`+quote(name)+`)).querySelector("input, select");
			e.value = `+quote(value)+
				`; e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input", { bubbles: true })); } 0`,
			nil))
	}
	r.click("dialog .main", "Run")
	r.wait(`document.querySelector("dialog [role=status], dialog [role=alert]")`)
	message := get[string](r.page, `document.querySelector("dialog [role=status], dialog [role=alert]").textContent`)
	r.keys(kb.Escape)
	r.wait(`!document.querySelector("dialog")`)
	return message
}

// requireAction runs an action, and fails the test if the message differs from want.
func (r *liveBoard) requireAction(button string, values map[string]string, want string) {
	r.t.Helper()
	if got := r.runAction(button, values); got != want {
		r.t.Fatalf("%s reports %q, want %q", button, got, want)
	}
}

// TestBoardOfRunningSandbox checks that the web UI of a real sandbox shows the bases, explains the state of objects,
// performs actions, follows a release, and rejects requests without the token.
func TestBoardOfRunningSandbox(t *testing.T) {
	address, b := startBoard(t)
	root, _, _ := strings.Cut(address, "/#")
	up, err := b.Open(t.Context())
	check.Must(t, err)
	defer up.Close()
	config, err := b.REST()
	check.Must(t, err)
	api, err := kubernetes.NewForConfig(config)
	check.Must(t, err)
	r := &liveBoard{page: openPage(newBrowser(t), t, address, viewport{}), root: root, box: b, up: up, api: api}
	r.waitUntilLoaded()
	r.wait(mainContains("base-1"))
	r.wait(mainContains("base-2"))
	if hash := get[string](r.page, "location.hash"); hash != "" {
		t.Errorf("the token is still in the URL: %s", hash)
	}
	for _, tc := range []struct {
		name string
		test func(*testing.T, *liveBoard)
	}{
		{"fault", setFault}, {"scenario", runScenario}, {"release", releaseVersion}, {"workloads", manageWorkloads},
		{"cordon", cordon}, {"accessibility", accessibility}, {"in a cluster", inCluster},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.test(t, &liveBoard{page: &page{t: t, ctx: r.ctx}, root: r.root, box: b, up: up, api: api})
		})
	}
	r.requireNoErrors(&fixture{url: root})
	p := openPage(newBrowser(t), t, address, viewport{}) // each token is valid for one session
	p.wait(`document.querySelector("h1")?.textContent === "This board needs its token"`)
	p.wait("!" + mainContains("base-1"))
}

// accessibility checks the accessibility of the views that show workloads, Pods and reasons.
func accessibility(t *testing.T, r *liveBoard) {
	script := axeScript(t)
	for _, query := range []string{"sel=base:base-1", "view=workloads&sel=workload:statefulset/default/ledger",
		"view=traffic", "view=lanes", "view=log"} {
		r.show(query)
		r.requireAccessible(script)
	}
}

func setFault(t *testing.T, r *liveBoard) {
	r.show("")
	r.click(".card", "base-2")
	r.wait(`document.querySelector(".cause")?.textContent.includes("Ready")`)
	r.requireAction("Set a fault", nil, "fault latency-1 (latency) was set on base-2")
	faults, err := r.up.Faults(t.Context(), "")
	if err != nil || len(faults.Faults) != 1 || faults.Faults[0].Kind != "latency" {
		t.Fatalf("faults %v, error %v; want one fault of kind latency", faults, err)
	}
	r.screenshot("real-sandbox")
	r.show("view=components&sel=fault:base-2/" + faults.Faults[0].ID)
	r.requireAction("Clear", nil, "fault latency-1 was cleared")
}
