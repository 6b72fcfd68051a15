package bench

import (
	"bufio"
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
)

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"time": func(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") },
}).Parse(pageText))

// content is what the template gets.
type content struct {
	*Result
	Style    template.CSS
	Policy   string
	Sections []section
	Failed   []Run
	Notes    []string
}

// section is a scenario on the page.
type section struct {
	Title string
	Parts []part
}

// part is a measurement of it.
type part struct {
	Measurement, About string
	Charts             []chart
}

// abouts say in a sentence what is measured.
var abouts = map[string]string{
	PodStartup:         "From the creation of a module Pod until a watch shows it Ready, and the parts of that time: until it has a Node, until its base begins to install, until the module runs, until the Pod is Ready.",
	Throughput:         "Module Pods that were scheduled in each second, from the first creation to the last scheduling.",
	NetworkProgramming: "From a Pod that a watch shows Ready until a Service has it as a ready endpoint, which is when the gateway sends requests there.",
	Responsiveness:     "From a request until the end of its answer, by the API server's own histograms: verb, resource, and scope. A value lies somewhere in its bucket.",
}

// sections draws everything.
func (r *Result) sections() []section {
	var list []section
	for _, g := range r.groups() {
		s := section{Title: g.title}
		for _, measurement := range []string{PodStartup, Throughput, NetworkProgramming, Responsiveness} {
			p := part{Measurement: measurement, About: abouts[measurement]}
			for first := 0; first < len(g.all); {
				last := first + 1
				for last < len(g.all) && g.all[last].measurement == g.all[first].measurement && g.all[last].name == g.all[first].name {
					last++
				}
				if g.all[first].measurement == measurement {
					p.Charts = append(p.Charts, chartOf(g.all[first:last]))
				}
				first = last
			}
			if len(p.Charts) > 0 {
				s.Parts = append(s.Parts, p)
			}
		}
		list = append(list, s)
	}
	return list
}

// WriteHTML writes one file without a script that shows a result in a browser without a network: each
// measure against the number of bases, as a chart and as a table.
func WriteHTML(w io.Writer, r *Result) error {
	c := content{Result: r, Sections: r.sections(), Notes: r.notes()}
	for _, run := range r.Runs {
		if run.Verdict != scenario.Passed {
			c.Failed = append(c.Failed, run)
		}
	}
	c.Style, c.Policy = report.Sheet(pageStyle)
	buffer := bufio.NewWriter(w)
	err := page.Execute(buffer, c)
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
