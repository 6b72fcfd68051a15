package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// WriteJUnit writes JUnit XML for CI servers, with a testsuite for each scenario and a testcase for each run. A
// Failed run is reported as a failure, an Errored run as an error.
func WriteJUnit(w io.Writer, r *scenario.Report) error {
	doc := junitReport{Name: "koupsandbox", Time: junitSeconds(r.Elapsed), Timestamp: junitTime(r.Started)}
	suites := map[string]*junitSuite{}
	for _, run := range r.Runs {
		s := suites[run.File+"\x00"+run.Scenario]
		if s == nil {
			s = &junitSuite{Name: run.Scenario, File: run.File, Timestamp: junitTime(run.Started)}
			suites[run.File+"\x00"+run.Scenario] = s
			doc.Suites = append(doc.Suites, s)
		}
		c, err := junitCaseOf(run)
		if err != nil {
			return err
		}
		s.Cases = append(s.Cases, c)
		s.elapsed += run.Elapsed
		s.Time = junitSeconds(s.elapsed)
		s.count(c)
		doc.count(c)
	}
	_, err := io.WriteString(w, xml.Header)
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err == nil {
		err = e.Encode(doc)
	}
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	if err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return nil
}

type junitReport struct {
	XMLName   xml.Name `xml:"testsuites"`
	Name      string   `xml:"name,attr"`
	Timestamp string   `xml:"timestamp,attr"`
	Time      string   `xml:"time,attr"`
	junitCounts
	Suites []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string `xml:"name,attr"`
	File      string `xml:"file,attr,omitempty"`
	Timestamp string `xml:"timestamp,attr"`
	Time      string `xml:"time,attr"`
	junitCounts
	Cases []*junitCase `xml:"testcase"`

	elapsed time.Duration
}

type junitCounts struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
}

func (n *junitCounts) count(c *junitCase) {
	n.Tests++
	switch {
	case c.Failure != nil:
		n.Failures++
	case c.Error != nil:
		n.Errors++
	case c.Skipped != nil:
		n.Skipped++
	}
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Time    string        `xml:"time,attr"`
	Failure *junitOutcome `xml:"failure"`
	Error   *junitOutcome `xml:"error"`
	Skipped *junitOutcome `xml:"skipped"`
	Output  *junitText    `xml:"system-out"`
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	junitText
}

// junitText is the text of a CDATA section. It must not contain characters that XML forbids, because a CDATA section
// cannot escape them.
type junitText struct {
	Text string `xml:",cdata"`
}

func junitCaseOf(run *scenario.Run) (*junitCase, error) {
	c := &junitCase{Name: Name(run), Class: run.Scenario, File: run.File, Time: junitSeconds(run.Elapsed)}
	var text bytes.Buffer
	if err := WriteRun(&text, run, TextOptions{Verbose: true}); err != nil {
		return nil, err
	}
	switch run.Result {
	case scenario.Failed:
		c.Failure = &junitOutcome{Message: run.Failure, Type: string(run.Result), junitText: junitText{text.String()}}
	case scenario.Errored:
		c.Error = &junitOutcome{Message: run.Failure, Type: string(run.Result), junitText: junitText{text.String()}}
	case scenario.Skipped:
		c.Skipped = &junitOutcome{Message: run.Failure}
	default:
		c.Output = &junitText{plain.Lines(run.Description) + "\n" + text.String()}
	}
	return c, nil
}

func junitSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// junitTime formats a time without a time zone, as the JUnit schema requires.
func junitTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05") }
