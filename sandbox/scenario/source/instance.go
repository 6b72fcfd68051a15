package source

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

// Instance is a valid scenario for one run. Its defaults are set. Its expressions are replaced by their values,
// except expressions that use outputs.
type Instance struct {
	*v1alpha1.Scenario
	// Origin is the scenario from which the instance was created.
	Origin *Scenario
	// Cell is the matrix cell of the run.
	Cell Cell
	// Static contains the names that expressions can use, with their types. Vars contains the values of the
	// variables.
	Static expr.Static
	Vars   map[string]any
	// Run contains the values of the fields of run in expressions.
	Run expr.Run

	doc *strictyaml.Document
	// applied holds the names of the objects that the steps apply, by kind, and the names of their containers. It is
	// complete after Scenario.prepare has called objects and manifests.
	applied map[string][]string
}

// Line returns the line of a field, such as spec.steps[2]. If the field is not in the file, it returns the line of
// the nearest parent field.
func (i *Instance) Line(path string) int { return i.doc.Line(path) }

// Instantiate returns the instance of the scenario for one run. The error is of type Problems. It contains only
// problems that depend on run, because Load has already reported all other problems.
func (s *Scenario) Instantiate(cell Cell, run expr.Run) (*Instance, error) {
	i, problems := s.instance(cell, run)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return i, nil
}

func (s *Scenario) instance(cell Cell, run expr.Run) (*Instance, Problems) {
	vars, err := s.vars.evaluateAll(s.env, cell, run)
	i := &Instance{Origin: s, Cell: cell, Static: s.static(vars), Vars: vars, Run: run}
	in := ""
	if cell.Name != "" {
		in = " (with " + cell.Name + ")"
	}
	var problems Problems
	if err != nil {
		problems = append(problems, s.problem(strings.SplitN(err.Error(), ":", 2)[0], rootOf(err).Error()+in))
	}
	expanded, failures := expand(s.source, s.env, i.known(vars))
	for _, e := range s.doc.Expressions() {
		if err := failures[e.Text]; err != nil && !strings.HasPrefix(e.Field, "spec.vars.") {
			problems = append(problems, Problem{Source: s.File, Line: e.Line, Field: e.Field, Detail: err.Error() + in})
		}
	}
	var wrong Problems
	i.Scenario, i.doc, wrong = v1alpha1.DecodeScenario(s.File, expanded)
	problems = append(problems, wrong...)
	for name, value := range vars {
		if i.Spec.Vars != nil {
			i.Spec.Vars[name] = value
		}
	}
	v1alpha1.SetScenarioDefaults(i.Scenario)
	for _, e := range v1alpha1.ValidateScenario(i.Scenario) {
		if !isConsequence(e, wrong) {
			problems = append(problems,
				Problem{Source: s.File, Line: i.Line(e.Field), Field: e.Field, Detail: e.ErrorBody()})
		}
	}
	return i, problems
}

// known returns the data for all expression names that are known before the run starts.
func (i *Instance) known(vars map[string]any) expr.Data {
	return expr.Data{"vars": vars, "matrix": maps.Clone(i.Cell.Values), "run": i.Run.Value()}
}

// expand evaluates the expressions in a file, except expressions that use outputs. It also returns the errors of
// expressions that have no value, by the text that contains the expression.
func expand(source *strictyaml.Source, env *expr.Env, known expr.Data) (*strictyaml.Source, map[string]error) {
	failures := map[string]error{}
	return source.Expand(func(text string) (any, bool) {
		if !expr.HasExpression(text) {
			return nil, false
		}
		t, err := env.Template(text)
		if err != nil || usesOutputs(t) {
			return nil, false
		}
		value, err := t.Eval(known)
		if err != nil {
			failures[text] = err
			return nil, false
		}
		return value, true
	}), failures
}

// isConsequence reports whether an error is only a consequence of a field that could not be decoded. unread lists the
// problems of such fields.
func isConsequence(e *field.Error, unread Problems) bool {
	return slices.ContainsFunc(unread, func(p Problem) bool {
		return within(e.Field, p.Field) || e.Type == field.ErrorTypeRequired && within(p.Field, e.Field)
	})
}

// within reports whether the field path equals the field of, or is nested in it.
func within(path, of string) bool {
	return of != "" && (path == of || strings.HasPrefix(path, of+".") || strings.HasPrefix(path, of+"["))
}

// usesOutputs reports whether a template uses outputs, which are known only during the run.
func usesOutputs(t *expr.Template) bool {
	return slices.ContainsFunc(t.Uses(), func(name string) bool { return strings.HasPrefix(name, "outputs") })
}

func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
