package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	// Error: it does not work, or loses what is promised.
	Error Level = "error"
	// Warning: it works, and may surprise.
	Warning Level = "warning"
)

// Input is a text with manifests.
type Input struct {
	// Name for messages, such as its path.
	Name string
	// Text is YAML with any number of documents, or JSON.
	Text []byte
}

// Options of Lint.
type Options struct {
	// Env is the environment that the modules are for; Pods that tolerate another one only are then
	// told. Default: any.
	Env string
	// Live is the cluster that the manifests are for. Default: none is asked.
	Live *Live
}

// Finding is one thing that is wrong.
type Finding struct {
	// Rule that found it, and its level.
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// File and Line where it stands; line 0 = not known.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Object is its kind/name.
	Object string `json:"object,omitempty"`
	// Message is a sentence that says what is wrong, Fix what to do.
	Message string `json:"message"`
	Fix     string `json:"fix"`
	// Excerpt shows where a text cannot be read, in indented lines; empty for all else.
	Excerpt string `json:"excerpt,omitempty"`
}

// String writes the finding in one line, and the excerpt in the lines after it.
func (f Finding) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Object != "" {
		place += ": " + f.Object
	}
	text := fmt.Sprintf("%s: %s: %s", place, f.Level, f.Message)
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	text = fmt.Sprintf("%s [%s]", text, f.Rule)
	if f.Excerpt != "" {
		text += "\n" + f.Excerpt
	}
	return text
}

// Lint returns what is wrong with the manifests of all inputs together, in the order of the inputs
// and of their lines.
func Lint(inputs []Input, o Options) []Finding {
	l := &linter{o: o}
	order := map[string]int{}
	for i, input := range inputs {
		order[input.Name] = i
		l.read(input)
	}
	for _, w := range l.modules {
		l.pod(w)
		l.placement(w)
		l.rollout(w)
		if o.Live != nil {
			l.live(w)
		}
	}
	l.together()
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	return l.findings
}

type linter struct {
	o         Options
	workloads []*workload
	modules   []*workload // those of workloads that are about modules
	services  []*service
	findings  []Finding
}

// find notes a finding at a field of an object.
func (l *linter) find(rule string, o *object, field, message string, args ...any) {
	r := ruleOf(rule)
	l.findings = append(l.findings, Finding{Rule: rule, Level: r.Level, File: o.file, Line: o.line(field), Object: o.title(),
		Message: fmt.Sprintf(message, args...), Fix: r.Fix})
}

// findMilder is find for what is not as bad as the rule's name says.
func (l *linter) findMilder(rule string, o *object, field, message string, args ...any) {
	l.find(rule, o, field, message, args...)
	l.findings[len(l.findings)-1].Level = Warning
}
