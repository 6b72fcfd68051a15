package report

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

//go:embed page
var files embed.FS

// page is the common part of all reports.
var page = newFrame()

// frame is a page without its texts. Its policy lets the browser run this script and no other, load
// nothing and send nothing, whatever the texts of a report say.
type frame struct {
	template      *template.Template
	script, style string
	policy        string
}

func newFrame() *frame {
	f := &frame{
		style:  read("style.css"),
		script: read("page.js"),
	}
	f.policy = fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; base-uri 'none'; "+
		"form-action 'none'", hash(f.script), hash(f.style))
	f.template = template.Must(template.New("page.html").Funcs(template.FuncMap{
		"name": Name, "seconds": seconds, "length": length, "since": since, "requests": requests, "count": count,
		"number": Number,
		"micros": func(run *scenario.Run, t time.Time) int64 { return t.Sub(run.Started).Microseconds() },
		"share":  time.Duration.Microseconds,
		"deeper": func(depth int) int { return depth + 1 },
		"nested": func(run *scenario.Run, list []*scenario.Step, depth int) nested { return nested{run, list, depth} },
		"verdict": func(v scenario.Result) string { // a class of the style sheet, or none
			switch v {
			case scenario.Passed, scenario.Failed, scenario.Skipped, scenario.Errored:
				return string(v)
			}
			return ""
		},
		"time": func(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") },
	}).Parse(read("page.html")))
	return f
}

func read(name string) string {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is compiled in
	}
	return string(text)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

type content struct {
	Report       *scenario.Report
	Policy       string
	Style        template.CSS
	Script, Data template.JS
}

// Open tells whether the page shows a run at once: those that have not passed, or the only one.
func (c content) Open(i int) bool {
	v := c.Report.Runs[i].Result
	return len(c.Report.Runs) == 1 || v == scenario.Failed || v == scenario.Errored
}

// nested are steps of a run with their depth.
type nested struct {
	Run   *scenario.Run
	Steps []*scenario.Step
	depth int
}

// Depth of the steps.
func (n nested) Depth() int { return min(n.depth, 3) }

// WriteHTML writes one file that shows everything in a browser without a network: the verdicts, the
// evidence, and a timeline of each run.
func WriteHTML(w io.Writer, r *scenario.Report) error {
	data, err := json.Marshal(pageDataOf(r)) // it writes <, > and & as \u…: no text ends the script element
	if err != nil {
		return fmt.Errorf("writing the timelines: %w", err)
	}
	buffer := bufio.NewWriter(w)
	err = page.template.Execute(buffer, content{
		Report: r, Policy: page.policy, Style: template.CSS(page.style), Script: template.JS(page.script),
		Data: template.JS(data), //nolint:gosec // our own style and script, and JSON that is escaped for a script
	})
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}
