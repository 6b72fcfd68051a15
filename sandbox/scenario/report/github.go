package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// Annotation is a message that a code review tool shows next to a line of a file.
type Annotation struct {
	// Warning reports whether the annotation is a warning. If it is false, the annotation is an error.
	Warning bool
	// File is the path of the file as the user specified it. Line is the line number, from 1; 0 means the whole file.
	File string
	Line int
	// Title is a short text without line breaks. Message may have several lines.
	Title, Message string
}

// Annotations returns an annotation for each run that is Failed or Errored. The annotation refers to the line of the
// failed step, if there is one.
func Annotations(r *scenario.Report) []Annotation {
	var list []Annotation
	for _, run := range r.Runs {
		if run.Result != scenario.Failed && run.Result != scenario.Errored {
			continue
		}
		a := Annotation{File: run.File, Title: fmt.Sprintf("%s %s", Name(run), run.Result), Message: run.Failure}
		if text := requests(run); text != "" {
			a.Message += "\n" + text
		}
		if run.RerunCommand != "" {
			a.Message += "\nRerun: " + run.RerunCommand
		}
		if step := failedStep(run.Steps); step != nil {
			a.Line = step.Line
		}
		list = append(list, a)
	}
	return list
}

// WriteAnnotations writes annotations as workflow commands of GitHub Actions, one per line. GitHub shows the first ten
// errors and the first ten warnings of a step.
func WriteAnnotations(w io.Writer, list []Annotation) error {
	for _, a := range list {
		level := "error"
		if a.Warning {
			level = "warning"
		}
		properties := []string{"file=" + property(a.File)}
		if a.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", a.Line))
		}
		properties = append(properties, "title="+property(a.Title))
		if _, err := fmt.Fprintf(w, "::%s %s::%s\n", level, strings.Join(properties, ","),
			data(plain.Lines(a.Message))); err != nil {
			return fmt.Errorf("writing annotations: %w", err)
		}
	}
	return nil
}

// data escapes the message of a workflow command in the same way as @actions/core, see command.ts in that package.
func data(text string) string { return strings.NewReplacer("%", "%25", "\n", "%0A").Replace(text) }

// property escapes the value of a workflow command property. Without escaping, a comma or a colon would end the
// value.
func property(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(plain.Text(text)))
}
