package report_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// drawn describes what the script of the page has drawn for a run. Whole, Zoomed and Printed are the numbers of
// boxes: for the whole run, for a tenth of the run, and on the printed page. Places contains the text that is shown
// at each place.
type drawn struct {
	Titles  []string          `json:"titles"`
	Whole   int               `json:"whole"`
	Zoomed  int               `json:"zoomed"`
	Printed int               `json:"printed"`
	Places  map[string]string `json:"places"`
	// Texts lists the texts that are drawn for the whole run. Legend lists the legend entries. Unnamed lists the
	// colours without a legend entry.
	Texts   []string `json:"texts"`
	Legend  []string `json:"legend"`
	Unnamed []string `json:"unnamed"`
}

// place is a position in the timeline: a lane, the time in microseconds from the start of the run, and the distance
// from the top of the lane in pixels.
type place [3]any

// browse runs the script of the page in Node.js with a minimal fake browser environment.
func browse(t *testing.T, r *scenario.Report, places ...place) []drawn {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	if err := report.Save(page, r, report.WriteHTML); err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(append([]place{}, places...))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "testdata/browser.js", page, string(asked))
	text, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("the script fails: %v\n%s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	var list []drawn
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestScriptDrawsReport(t *testing.T) {
	got := browse(t, sampleReport(),
		place{"base-1", 1.6e6, 30}, place{"base-1", 1.432e6, 20}, place{"base-1", 0.9e6, 6},
		place{"module-controller", 1.8e6, 9}, place{"components", 1.8e6, 9}, place{"Service stock", 0.8e6, 9},
		place{"requests: traffic", 0.9285e6, 30}, place{"steps", 1.165e6, 20}, place{"faults", 0.905e6, 9})
	if len(got) != 3 { // the skipped run has no timeline
		t.Fatalf("%d timelines, want 3", len(got))
	}
	wantTitles := []string{"steps", "requests: service", "requests: bases", "broker", "module-controller",
		"Service stock", "Pods without a base", "base-1", "base-2", "base-3", "base-4"}
	if diff := cmp.Diff(wantTitles, got[0].Titles); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	for i, want := range []map[string]string{
		{
			"base-1 1600000 30": "module stock:1.0.0: DEACTIVATED\n1.429 s to 3.389 s, 1.96 s",
			"base-1 1432000 20": "command: installBiz stock:2.0.0: ok\n1.230 s to 1.431 s, 201 ms",
			"base-1 900000 6":   "process base-1: ready\nc9a1f0e2-0001\n0.002 s to 5.180 s, 5.18 s",
			"module-controller 1800000 9": "process module-controller: exited\nsignal: killed\n1.705 s to " +
				"1.960 s, 255 ms",
			"Service stock 800000 9": "endpoints stock: all\n4 of 4 ready\n0.410 s to 5.180 s, 4.77 s",
			"steps 1165000 20":       "version 2: passed\npatch\n1.160 s to 1.190 s, 30 ms",
		},
		{
			"base-1 1600000 30": "module stock:2.0.0: RESOLVED\n0.905 s to 1.700 s, 795 ms",
			"base-1 1432000 20": "",
			"base-1 900000 6": "command: uninstallBiz stock:1.0.0: ok\n0.880 s to 0.900 s, 20 ms\nlost: notFound: " +
				"404: no active biz \"stock\"\n0.907 s\n" +
				"process base-1: ready\nc9a1f0e2-0001\n0.002 s to 3.004 s, 3.00 s",
			"components 1800000 9": "process components: running\nbroker, module-controller\n0.000 s to " +
				"3.004 s, 3.00 s",
			"Service stock 800000 9": "endpoints stock: none\n0 of 1 ready; not ready: base-1\n0.710 s to " +
				"1.716 s, 1.01 s",
			"requests: traffic 928500 30": "lost: notFound at 0.928 s; base-1; 127.0.0.1:36511; 404: no active biz " +
				"\"stock\"\n0.000 s to 1.000 s, 1.00 s: 40 sent, 5 lost\n1.0.0: 35",
			"steps 1165000 20": "",
			"faults 905000 9": "fired: fault-1 on base-1: installBiz of stock:2.0.0 waits 700ms\n0.905 s\nfault " +
				"fault-1 on base-1: set\ndelay 700ms of installBiz\n0.607 s to 3.004 s, 2.40 s",
		},
	} {
		if diff := cmp.Diff(want, got[i].Places); diff != "" {
			t.Errorf("tooltips in run %d (-want +got):\n%s", i, diff)
		}
	}
	if slices.Contains(got[1].Titles, "broker") ||
		!slices.Contains(got[1].Texts, "running: broker, module-controller") {
		t.Errorf("components that were running all the time have separate rows: %q", got[1].Titles)
	}
	for _, want := range []string{"process", "commands", "modules", "Pods"} {
		if n := strings.Count("\n"+strings.Join(got[0].Texts, "\n")+"\n", "\n"+want+"\n"); n == 0 {
			t.Errorf("no row of a base has the label %q: %q", want, got[0].Texts)
		}
	}
	if len(got[0].Unnamed) > 0 {
		t.Errorf("colours without a legend entry: %q", got[0].Unnamed)
	}
	legend := strings.Join(got[0].Legend, "; ")
	for _, want := range []string{"1.0.0", "2.0.0", "being installed", "Pod terminating", "component paused",
		"a fault struck", "a request lost"} {
		if !strings.Contains(legend, want) {
			t.Errorf("the legend lacks %q: %s", want, legend)
		}
	}
}

// TestLongLabelsAreTruncated checks that labels that are too long are truncated and end with "…", and that the
// tooltip shows the whole text.
func TestLongLabelsAreTruncated(t *testing.T) {
	const long = "a step whose name is much longer than the time that it took could ever show on a screen, however " +
		"wide it may be, and then some more words to be quite sure"
	r := sampleReport()
	r.Runs = r.Runs[:1]
	r.Runs[0].Steps[0].Name = long
	r.Runs[0].Traffic[0].Name = long
	got := browse(t, r, place{"requests: " + long, -1e6, 9}, place{"steps", 0.1e6, 5})[0]
	for _, begin := range []string{"requests: a step", "a s"} {
		if !slices.ContainsFunc(got.Texts,
			func(s string) bool { return strings.HasPrefix(s, begin) && strings.HasSuffix(s, "…") }) {
			t.Errorf("no text begins with %q and ends in …: %q", begin, got.Texts)
		}
	}
	if slices.Contains(got.Texts, long) {
		t.Error("the long name was not truncated")
	}
	if at := got.Places["steps 100000 5"]; !strings.Contains(at, long) {
		t.Errorf("the tooltip does not have the name: %q", at)
	}
}
