package source

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

// check compiles everything that is an expression. It returns the names that are
// used.
func (s *Scenario) check() (problems Problems, used map[string]bool) {
	used = map[string]bool{}
	note := func(names []string) {
		for _, name := range names {
			used[name] = true
		}
	}
	conditions, paths := s.conditions()
	for _, e := range s.doc.Expressions() {
		if wrong := misplaced(e.Field, paths); wrong != "" {
			noteText(e.Text, used)
			problems = append(problems, Problem{Source: s.File, Line: e.Line, Field: e.Field, Detail: wrong})
			continue
		}
		t, wrong := s.template(e)
		problems = append(problems, wrong...)
		if t == nil {
			noteText(e.Text, used)
			continue
		}
		note(t.Uses())
	}
	for _, c := range conditions {
		program, err := s.env.Compile(c.text, c.kind)
		var wrong expr.Problems
		if errors.As(err, &wrong) {
			problems = append(problems, s.conditionProblems(c, wrong)...)
			noteText(c.text, used)
			continue
		}
		note(program.Uses())
	}
	return problems, used
}

// misplaced says why there can be no expression in a field.
func misplaced(path string, conditions map[string]bool) string {
	switch {
	case !strings.HasPrefix(path, "spec."):
		return "expressions are for fields of spec only"
	case strings.HasPrefix(path, "spec.matrix"):
		return "the matrix gives values to expressions and cannot have any itself"
	case conditions[path]:
		return "is an expression as a whole: write vars.NAME without ${{ }}"
	}
	return ""
}

// template compiles a string with expressions, and checks that its type fits and
// that what it uses is known in time.
func (s *Scenario) template(e strictyaml.Expression) (*expr.Template, Problems) {
	at := func(line int, detail string) Problem {
		return Problem{Source: s.File, Line: line, Field: e.Field, Detail: detail}
	}
	t, err := s.env.Template(e.Text)
	var wrong expr.Problems
	if errors.As(err, &wrong) {
		var problems Problems
		for _, p := range wrong {
			problems = append(problems, at(e.Line+p.Line-1, p.Detail))
		}
		return nil, problems
	}
	var problems Problems
	if err := t.Fits(e.Want); err != nil {
		problems = append(problems, at(e.Line, err.Error()))
	}
	for _, name := range t.Uses() {
		output, ok := strings.CutPrefix(name, "outputs.")
		if !ok {
			continue
		}
		if detail := s.early(output, e); detail != "" {
			problems = append(problems, at(e.Line, detail))
		}
	}
	return t, problems
}

// early says why an output is not known in time for an expression.
func (s *Scenario) early(output string, e strictyaml.Expression) string {
	want := e.Want
	for want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	switch {
	case !strings.HasPrefix(e.Field, "spec.steps") && !strings.HasPrefix(e.Field, "spec.finally"):
		return "outputs are known in steps only"
	case want.Kind() != reflect.String && want.Kind() != reflect.Interface:
		return "an output is known only when its step has been done, too late for this field: outputs can be used in strings"
	}
	var printed int
	s.Scenario.EachStep(func(path *field.Path, step *v1alpha1.Step) {
		if step.Script != nil && step.Script.Output == output {
			printed = s.doc.Line(path.Child("script", "output").String())
		}
	})
	if printed > e.Line {
		return fmt.Sprintf("outputs.%s is not known yet: the step that prints it comes later, in line %d", output, printed)
	}
	return ""
}

// condition is a field that is an expression as a whole.
type condition struct {
	path string
	text string
	kind expr.Kind
}

// conditions returns those that can be compiled, and the paths of all.
func (s *Scenario) conditions() (all []condition, paths map[string]bool) {
	paths = map[string]bool{}
	s.Scenario.EachCondition(func(at *field.Path, text string) {
		path, kind := at.String(), expr.Condition
		paths[path] = true
		switch {
		case strings.TrimSpace(text) == "" || expr.Has(text):
			return
		case strings.HasSuffix(path, ".until"):
			kind = expr.Until
		case strings.HasSuffix(path, ".judge"):
			kind = expr.Judge
		}
		all = append(all, condition{path, text, kind})
	})
	return all, paths
}

func (s *Scenario) conditionProblems(c condition, wrong expr.Problems) Problems {
	line := s.doc.Line(c.path)
	if strings.Contains(c.text, "\n") { // a block: its text begins in the next line
		line++
	}
	var problems Problems
	for _, p := range wrong {
		problems = append(problems, Problem{Source: s.File, Line: line + p.Line - 1, Field: c.path, Detail: p.Detail})
	}
	return problems
}

var names = regexp.MustCompile(`\b(?:vars|matrix)\.[A-Za-z_][A-Za-z0-9_]*`)

// noteText notes the names in an expression that does not compile, so that they
// are not called unused too.
func noteText(text string, used map[string]bool) {
	for _, name := range names.FindAllString(text, -1) {
		used[name] = true
	}
}

// meant tells whether a problem supposes that a name was meant.
func meant(name string, problems Problems) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasSuffix(p.Detail, "; did you mean "+name+"?") })
}

// unused reports variables and dimensions of the matrix that nothing uses.
func (s *Scenario) unused(used map[string]bool, others Problems) Problems {
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(s.Scenario.Spec.Vars)) {
		if !used["vars."+name] && !meant(name, others) {
			problems = append(problems, s.problem("spec.vars."+name, "nothing uses this variable: remove it"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Scenario.Spec.Matrix)) {
		if !used["matrix."+name] && !meant(name, others) {
			problems = append(problems, s.problem("spec.matrix["+name+"]", "nothing uses matrix."+name+": its runs would be all the same"))
		}
	}
	return problems
}
