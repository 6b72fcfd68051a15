package report

import (
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// A run that was told late says so, also if it has passed.
func TestLateness(t *testing.T) {
	for lag, want := range map[time.Duration]bool{lateFrom: false, 3200 * time.Millisecond: true} {
		var b strings.Builder
		if err := WriteRun(&b, &scenario.Run{Scenario: "s", Verdict: scenario.Passed, Lag: lag}, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "seen up to 3.2s late"); got != want {
			t.Errorf("with a lag of %v: %s", lag, b.String())
		}
	}
}
