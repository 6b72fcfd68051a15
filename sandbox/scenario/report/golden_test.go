package report_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

var update = flag.Bool("update", false, "write the golden files")

// writeText writes all runs of a report and its summary as text.
func writeText(w io.Writer, r *scenario.Report, o report.TextOptions) error {
	for _, run := range r.Runs {
		if err := report.WriteRun(w, run, o); err != nil {
			return err
		}
	}
	return report.WriteSummary(w, r, o)
}

func TestGolden(t *testing.T) {
	text := func(o report.TextOptions) func(io.Writer, *scenario.Report) error {
		return func(w io.Writer, r *scenario.Report) error { return writeText(w, r, o) }
	}
	for _, tc := range []struct {
		file  string
		write func(io.Writer, *scenario.Report) error
	}{
		{"sample.txt", text(report.TextOptions{})},
		{"sample-verbose.txt", text(report.TextOptions{Verbose: true})},
		{"sample-color.txt", text(report.TextOptions{Color: true})},
		{"sample.json", report.WriteJSON}, // the source of the report: no field is lost
		{"sample.xml", report.WriteJUnit},
		{"sample.html", writeFrame},
		{"sample.md", report.WriteMarkdown},
		{"sample-github.txt", func(w io.Writer, r *scenario.Report) error {
			return report.WriteAnnotations(w, report.Annotations(r))
		}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			var got bytes.Buffer
			if err := tc.write(&got, sampleReport()); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", tc.file)
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("update it with -update (-want +got):\n%s", diff)
			}
		})
	}
}

// writeFrame writes the HTML page without its script and style.
func writeFrame(w io.Writer, r *scenario.Report) error {
	var page bytes.Buffer
	if err := report.WriteHTML(&page, r); err != nil {
		return err
	}
	text := page.String()
	for _, tag := range []string{"script", "style"} {
		text = strings.Replace(text, between(text, "<"+tag+">", "</"+tag+">"), "…", 1)
	}
	_, err := io.WriteString(w, regexp.MustCompile(`sha256-.*?&#39;`).ReplaceAllString(text, "sha256-…&#39;"))
	return err
}
