package report

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

func lossy(result scenario.Result, sent, lost int) *scenario.Run {
	return &scenario.Run{Scenario: "s", Result: result, Started: time.Now(),
		Traffic: []scenario.Traffic{{Summary: traffic.Summary{Name: "t", Sent: sent, Lost: lost}, Result: result}}}
}

// TestAllowedLosses checks that the report shows the lost requests of a passed run as allowed by its scenario.
func TestAllowedLosses(t *testing.T) {
	passed, failed := lossy(scenario.Passed, 79, 7), lossy(scenario.Failed, 10, 3)
	want := []string{"79 requests, 7 lost, allowed", "10 requests, 3 lost", "89 requests, 10 lost (7 allowed)",
		"5 requests, 0 lost"}
	got := []string{requests(passed), requests(failed), requests(passed, failed),
		requests(lossy(scenario.Passed, 5, 0))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	r := &scenario.Report{Runs: []*scenario.Run{passed}}
	for name, write := range map[string]func(io.Writer, *scenario.Report) error{
		"HTML": WriteHTML, "JUnit": WriteJUnit, "Markdown": WriteMarkdown,
	} {
		var text bytes.Buffer
		if err := write(&text, r); err != nil || !strings.Contains(text.String(), "7 lost, allowed") {
			t.Errorf("%s does not have the allowed losses, error %v:\n%s", name, err, text.String())
		}
	}
}
