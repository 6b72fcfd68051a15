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

// page is the part of the HTML page that is the same for all reports.
var page = newFrame()

// frame is an HTML page without data. Its content security policy ensures that the browser runs only the script of
// the page and makes no network requests, even if texts of a report contain HTML.
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
		"verdict": func(v scenario.Result) string { // a CSS class, or ""
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
		panic(err) // cannot happen: the file is embedded
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

// Open reports whether the page initially shows the details of a run. This is the case if the run is Failed or
// Errored, or if it is the only run.
func (c content) Open(i int) bool {
	v := c.Report.Runs[i].Result
	return len(c.Report.Runs) == 1 || v == scenario.Failed || v == scenario.Errored
}

// nested contains steps of a run and their nesting depth.
type nested struct {
	Run   *scenario.Run
	Steps []*scenario.Step
	depth int
}

// Depth returns the nesting depth of the steps, at most 3.
func (n nested) Depth() int { return min(n.depth, 3) }

// WriteHTML writes an HTML file with the results, the evidence and a timeline of each run. The file loads nothing
// from the network.
func WriteHTML(w io.Writer, r *scenario.Report) error {
	data, err := json.Marshal(pageDataOf(r)) // escapes <, > and &, so that no text ends the script element
	if err != nil {
		return fmt.Errorf("encoding the timelines: %w", err)
	}
	buffer := bufio.NewWriter(w)
	//nolint:gosec // our own style and script, and JSON that is escaped for a script
	err = page.template.Execute(buffer, content{
		Report: r, Policy: page.policy, Style: template.CSS(page.style), Script: template.JS(page.script),
		Data: template.JS(data),
	})
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}
