package board

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// seen notes in the page, for each row of the log that comes, how many milliseconds after the time
// that it tells the browser was about to paint it.
const seen = `window.late = []; { const known = new Set(), body = document.querySelector("main");
	const look = () => { for (const row of document.querySelectorAll(".virtual tbody tr:not(.gap)")) {
		const key = row.innerText;
		if (known.has(key)) continue;
		known.add(key);
		const [h, m, s] = row.cells[0].textContent.split(":").map(Number);
		requestAnimationFrame(() => { const now = Date.now(); window.late.push(now % 86400e3 - (h * 3600e3 + m * 60e3 + Math.round(s * 1e3))); });
	} };
	look(); setTimeout(() => { window.late.length = 0; new MutationObserver(look).observe(body, { childList: true, subtree: true, characterData: true }); window.watching = true; }, 100); } 0`

// lateness measures how long a change on a base takes to the screen: from the time of the base's event
// to the frame that paints its row of the log. What comes out depends on what else the machine does,
// so it is a figure and no bound.
func lateness(t *testing.T, r *live) {
	const changes = 60
	r.look("view=log&kinds=fault")
	r.run(chromedp.Evaluate(seen, nil))
	r.wait("window.watching")
	for n := range changes / 2 {
		id, err := r.up.SetFault(t.Context(), fault.Injection{Fault: v1alpha1.Fault{Kind: basefault.KindLatency, Delay: basefault.Delay{Min: basefault.Duration(time.Millisecond)}}, Bases: []string{"base-1"}})
		check.Must(t, err)
		check.Must(t, r.up.ClearFaults(t.Context(), sandbox.FaultSelector{IDs: []string{id}}))
		r.wait(fmt.Sprintf("window.late.length >= %d", 2*n+2))
	}
	late := get[[]float64](r.page, "window.late")
	slices.Sort(late)
	if late[0] < 0 { // there may be more: a fault may strike meanwhile
		t.Fatalf("a change was seen before it was made: %v", late)
	}
	t.Logf("a change on a base reaches the screen after %.0f ms (50th percentile), %.0f ms (95th) on %s", late[len(late)/2], late[len(late)*95/100], machine())
}

// machine names the processor that figures are of.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				return fmt.Sprintf("%d cores of %s", runtime.NumCPU(), strings.TrimSpace(value))
			}
		}
	}
	return fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.GOARCH)
}
