package lint

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// Level is the severity of a finding.
type Level string

// The values of Level.
const (
	// Error means that the object does not work, or that it breaks a guarantee.
	Error Level = "error"
	// Warning means that the object works, but has a side effect that its author may not expect.
	Warning Level = "warning"
	// Info means that something was not checked. The Rule of such a finding is NotChecked.
	Info Level = "info"
)

// NotChecked is the Rule of a finding that states what Lint did not check.
const NotChecked = "not-checked"

// Input is a text that contains Kubernetes manifests.
type Input struct {
	// Name identifies the input in messages. It is usually the path of the file.
	Name string
	// Text contains any number of YAML documents, or JSON.
	Text []byte
	// Found reports whether the file was found in a directory rather than named by the user. In such a file,
	// documents that are not Kubernetes objects are skipped. Default: these documents are reported as not checked.
	Found bool
}

// Options configures Lint.
type Options struct {
	// Env is the target environment of the modules. If it is set, Pods that tolerate only another environment are
	// reported. Default: any environment is accepted, and a NotChecked finding lists the tolerated environments.
	Env string
	// Language is the language of the findings. Default: English.
	Language language.Language
	// Live is the cluster with which the manifests are compared. Default: no cluster.
	Live *Live
}

// Report is the result of Lint.
type Report struct {
	// Findings contains the findings, sorted by input and line. Credentials in URLs are redacted.
	Findings []Finding
	// Objects lists all objects in the inputs as kind/name, in the order of the inputs.
	Objects []string
	// Workloads is the number of Pods and Pod templates that were read. Modules is how many of them are module Pods
	// or look like module Pods.
	Workloads, Modules int
}

// Finding describes a problem of an object, or something that was not checked.
type Finding struct {
	// Rule is the ID of the rule. Level is the severity of this finding.
	Rule  string `json:"rule"`
	Level Level  `json:"level"`
	// File and Line are the position of the problem in the input. Line is 0 if the line is unknown.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Object is the object with the problem, as kind/name.
	Object string `json:"object,omitempty"`
	// Message describes the problem. Fix describes how to fix it. Neither ends with a full stop.
	Message string `json:"message"`
	Fix     string `json:"fix"`
	// Excerpt quotes the invalid part of an input that is not valid YAML, in indented lines. It is empty for all
	// other findings.
	Excerpt string `json:"excerpt,omitempty"`
}

// String formats the finding as one line, followed by the lines of the excerpt.
func (f Finding) String() string {
	position := f.File
	if f.Line > 0 {
		position = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Object != "" {
		position += ": " + f.Object
	}
	line := fmt.Sprintf("%s: %s: %s", position, f.Level, f.Message)
	if f.Fix != "" {
		line += "; " + f.Fix
	}
	line = fmt.Sprintf("%s [%s]", line, f.Rule)
	if f.Excerpt != "" {
		line += "\n" + f.Excerpt
	}
	return line
}

// Lint checks the manifests in all inputs. It checks them together, because some rules compare several objects.
func Lint(inputs []Input, o Options) Report {
	l := &linter{o: o}
	order := map[string]int{}
	patches := kustomizePatches(inputs)
	for i, input := range inputs {
		order[input.Name] = i
		if !patches[filepath.Clean(input.Name)] {
			l.read(input)
		}
	}
	for _, w := range l.workloads {
		if !w.module() {
			l.checkOrdinaryDaemonSet(w)
			continue
		}
		l.modules = append(l.modules, w)
		l.checkPod(w)
		l.checkPlacement(w)
		l.checkRollout(w)
		if o.Live != nil {
			l.checkLive(w)
		}
	}
	l.checkTogether()
	l.environments()
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	for i := range l.findings {
		f := &l.findings[i]
		f.Message, f.Fix, f.Excerpt = redact.Text(f.Message), redact.Text(f.Fix), redact.Text(f.Excerpt)
		if len(f.Excerpt) > maxExcerpt {
			f.Excerpt = ""
		}
	}
	return Report{Findings: l.findings, Objects: l.objects, Workloads: len(l.workloads), Modules: len(l.modules)}
}

// maxExcerpt is the maximum size of an excerpt in bytes. A longer excerpt is omitted, because a terminal would wrap
// its lines and show the caret in the wrong column.
const maxExcerpt = 1000

type linter struct {
	o         Options
	objects   []string // all objects, as kind/name
	workloads []*workload
	modules   []*workload // workloads with module Pods
	services  []*service
	opaque    []*object // custom resources without a Pod template, whose controllers may create Pods
	findings  []Finding
}

// find adds a finding about a field of an object, with the default level and the fix of the rule.
func (l *linter) find(rule string, o *object, field string, message language.Text, a args) *Finding {
	r := ruleOf(rule)
	l.findings = append(l.findings,
		Finding{Rule: rule, Level: r.level, File: o.file, Line: o.line(field), Object: o.title(),
			Message: l.in(message, a), Fix: l.in(r.fix, nil)})
	return &l.findings[len(l.findings)-1]
}

// in returns a text in the language of the findings, with the arguments a filled in.
func (l *linter) in(t language.Text, a args) string { return t.In(l.o.Language, a) }

// invalid adds a finding about a field that the API server rejects. fix describes how to fix the field.
func (l *linter) invalid(o *object, field string, fix, message language.Text, a args) {
	l.find("shape", o, field, message, a).Fix = l.in(fix, a)
}

// environments adds a finding that lists the environments that modules tolerate by name and that were not checked. It
// does nothing if Options.Env or a cluster determines the target environment.
func (l *linter) environments() {
	if l.o.Env != "" || l.o.Live != nil {
		return
	}
	named := map[string]bool{}
	for _, w := range l.modules {
		for _, t := range w.template.Spec.Tolerations {
			if t.Key == labels.TaintEnv && t.Value != "" && !unknown(t.Value) {
				named[t.Value] = true
			}
		}
	}
	if len(named) > 0 {
		f := l.find(NotChecked, &object{file: l.modules[0].file}, "", msgUncheckedEnvironment,
			args{"environments": strings.Join(sortedKeys(named), ", ")})
		f.Line, f.Fix = 0, l.in(fixUncheckedEnvironment, nil)
	}
}
