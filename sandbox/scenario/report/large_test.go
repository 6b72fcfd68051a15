package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// TestPageSizeWithManyEvents checks that for a report with many events, the HTML page stores only a few numbers per
// event, and no text.
func TestPageSizeWithManyEvents(t *testing.T) {
	const most = 40 // bytes per event; 50 bases with 10,000 events each need 20 MB
	r := sampleReport()
	r.Runs = r.Runs[:1]
	sizeOf := func() int {
		var page bytes.Buffer
		if err := report.WriteHTML(&page, r); err != nil {
			t.Fatal(err)
		}
		return page.Len()
	}
	before, timeline := sizeOf(), r.Runs[0].Timeline
	for i := range 100 {
		for _, e := range timeline {
			e.Time = e.Time.Add(time.Duration(i+1) * time.Minute)
			r.Runs[0].Timeline = append(r.Runs[0].Timeline, e)
		}
	}
	if each := (sizeOf() - before) / (100 * len(timeline)); each > most {
		t.Errorf("%d bytes per event, want at most %d", each, most)
	}
}

// TestSummarySizeWithManyFailures checks that the Markdown summary of a report with many failures stays below 1 MiB,
// because GitHub rejects larger summaries.
func TestSummarySizeWithManyFailures(t *testing.T) {
	r := sampleReport()
	failed := r.Runs[1]
	failed.Details = append(failed.Details,
		scenario.Detail{Title: "long", Text: strings.Repeat(strings.Repeat("<", 1000)+"\n", 100)})
	failed.Scenario = strings.Repeat("<|", 500)
	r.Runs = r.Runs[:1]
	for range 10000 {
		r.Runs = append(r.Runs, failed)
	}
	var summary bytes.Buffer
	if err := report.WriteMarkdown(&summary, r); err != nil {
		t.Fatal(err)
	}
	if most := 1 << 20; summary.Len() > most {
		t.Errorf("%d bytes, want %d at most", summary.Len(), most)
	}
	got := []int{strings.Count(summary.String(), "| ❌ failed |"), strings.Count(summary.String(), "<details>"),
		strings.Count(summary.String(), "9,501 more runs in `report.html`."),
		strings.Count(summary.String(), "`report.html` has the other failed runs.")}
	if diff := cmp.Diff([]int{500, 20, 1, 1}, got); diff != "" {
		t.Errorf("rows, evidence, notes (-want +got):\n%s", diff)
	}
}
