package report_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

func large(bases, perBase int) *scenario.Report {
	r := sampleReport()
	r.Runs = []*scenario.Run{largeRun(bases, perBase, time.Minute)}
	return r
}

// A browser must hold the page: each event costs it a few numbers, not a text of
// its own.
func TestPageOfManyEventsStaysSmall(t *testing.T) {
	const most = 40 // bytes for each event; 50 bases of 10,000 events are then 20 MB
	sizeOf := func(r *scenario.Report) int {
		var page bytes.Buffer
		if err := report.WriteHTML(&page, r); err != nil {
			t.Fatal(err)
		}
		return page.Len()
	}
	small, big := large(10, 10), large(10, 1000)
	events := len(big.Runs[0].Timeline) - len(small.Runs[0].Timeline)
	if each := (sizeOf(big) - sizeOf(small)) / events; each > most {
		t.Errorf("%d bytes for each of %d events, want %d at most", each, events, most)
	}
}

// BenchmarkHTML writes the page of 50 bases with 10,000 events each.
func BenchmarkHTML(b *testing.B) {
	r := large(50, 10000)
	b.ReportMetric(float64(len(r.Runs[0].Timeline)), "events")
	for b.Loop() {
		if err := report.WriteHTML(io.Discard, r); err != nil {
			b.Fatal(err)
		}
	}
}
