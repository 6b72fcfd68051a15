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

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

type usage map[string]bool

func (u usage) add(names []string) {
	for _, name := range names {
		u[name] = true
	}
}

var names = regexp.MustCompile(`\b(?:vars|matrix)\.[A-Za-z_][A-Za-z0-9_]*`)

// addFromText adds the variables and matrix dimensions whose names occur in the text of an invalid expression.
// Otherwise, they could be reported as unused.
func (u usage) addFromText(text string) { u.add(names.FindAllString(text, -1)) }

// check compiles all expressions of the scenario. It returns the problems of the expressions and the names that the
// expressions use.
func (s *Scenario) check() (problems Problems, used usage) {
	used = usage{}
	conditions := map[string]bool{}
	s.Scenario.EachCondition(func(at *field.Path, text string) {
		path := at.String()
		conditions[path] = true
		if strings.TrimSpace(text) == "" || expr.HasExpression(text) {
			return
		}
		line := s.doc.Line(path)
		if strings.Contains(text, "\n") { // a block scalar starts in the next line
			line++
		}
		program, err := s.env.Compile(text, expr.ScopeOf(path))
		if err != nil {
			problems = append(problems, located(s.File, path, line, err)...)
			used.addFromText(text)
			return
		}
		used.add(program.Uses())
	})
	for _, e := range s.doc.Expressions() {
		if wrong := misplaced(e.Field, conditions); wrong != "" {
			used.addFromText(e.Text)
			problems = append(problems, Problem{Source: s.File, Line: e.Line, Field: e.Field, Detail: wrong})
			continue
		}
		t, err := s.env.Template(e.Text)
		if err != nil {
			used.addFromText(e.Text)
			problems = append(problems, located(s.File, e.Field, e.Line, err)...)
			continue
		}
		for _, name := range t.Uses() {
			output, ok := strings.CutPrefix(name, "outputs.")
			if detail := s.outputProblem(output, e); ok && detail != "" {
				problems = append(problems, Problem{Source: s.File, Line: e.Line, Field: e.Field, Detail: detail})
			}
		}
		used.add(t.Uses())
	}
	return problems, used
}

func located(file, field string, line int, err error) Problems {
	var wrong expr.Problems
	if !errors.As(err, &wrong) {
		return Problems{{Source: file, Line: line, Field: field, Detail: err.Error()}}
	}
	problems := make(Problems, len(wrong))
	for i, p := range wrong {
		problems[i] = Problem{Source: file, Line: line + p.Line - 1, Field: field, Detail: p.Detail,
			Excerpt: p.Excerpt()}
	}
	return problems
}

// misplaced returns the reason why a field must not contain an expression, or "" if it may.
func misplaced(path string, conditions map[string]bool) string {
	switch {
	case !strings.HasPrefix(path, "spec."):
		return "expressions are allowed only in fields of spec"
	case strings.HasPrefix(path, "spec.matrix"):
		return "expressions are not allowed in the matrix"
	case conditions[path]:
		return "the whole field is an expression; write vars.NAME without ${{ }}"
	}
	return ""
}

// outputProblem returns the reason why an expression cannot use an output, or "" if it can.
func (s *Scenario) outputProblem(output string, e strictyaml.Expression) string {
	want := e.Want
	for want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	switch {
	case !strings.HasPrefix(e.Field, "spec.steps") && !strings.HasPrefix(e.Field, "spec.finally"):
		return "outputs are available only in steps"
	case want.Kind() != reflect.String && want.Kind() != reflect.Interface:
		return "outputs can be used only in fields with strings"
	}
	at, known := s.Scenario.Names().Outputs[output]
	if !known {
		return ""
	}
	if printed := s.doc.Line(at.String()); printed > e.Line {
		return fmt.Sprintf("outputs.%s is not available yet; move this step after the step in line %d, which sets the "+
			"output", output, printed)
	}
	return ""
}

// isSuggested reports whether a problem suggests the name as a correction.
func isSuggested(name string, problems Problems) bool {
	return slices.ContainsFunc(problems,
		func(p Problem) bool { return strings.HasSuffix(p.Detail, "; did you mean "+name+"?") })
}

// unused returns a problem for each unused variable and matrix dimension.
func (s *Scenario) unused(used usage, others Problems) Problems {
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(s.Scenario.Spec.Vars)) {
		if !used["vars."+name] && !isSuggested(name, others) {
			problems = append(problems, s.problem("spec.vars."+name, "unused variable; remove it"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Scenario.Spec.Matrix)) {
		if !used["matrix."+name] && !isSuggested(name, others) {
			problems = append(problems,
				s.problem("spec.matrix["+name+"]",
					"unused matrix dimension; remove it, because its runs would be identical"))
		}
	}
	return problems
}
