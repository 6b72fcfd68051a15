package source

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

// variables contains the variables of a scenario. They are ordered so that each variable uses only earlier variables.
type variables struct {
	order  []string
	values map[string]any // values of the variables, which may contain expressions
}

// resolve applies the overrides, orders the variables by their dependencies, and creates an Env with the types of the
// variables.
func (s *Scenario) resolve(given map[string]v1alpha1.Any, o Options) Problems {
	var problems Problems
	s.vars, s.Overrides = &variables{values: map[string]any{}}, map[string]any{}
	for name, value := range given {
		override, ok := o.Vars[name]
		if !ok {
			s.vars.values[name] = value
			continue
		}
		fitting, err := convertOverride(override, value)
		if err != nil {
			problems = append(problems, Problem{Source: "--var " + name, Detail: err.Error()})
			fitting = value
		}
		s.vars.values[name], s.Overrides[name] = fitting, override
	}
	known := map[string]any{}
	rest := slices.Sorted(maps.Keys(s.vars.values))
	for {
		env, err := expr.New(s.static(known))
		if err != nil {
			return append(problems, s.problem("spec", err.Error()))
		}
		s.env = env
		left := slices.DeleteFunc(slices.Clone(rest), func(name string) bool { return s.evaluate(name, known) })
		if len(left) == len(rest) {
			break
		}
		rest = left
	}
	for _, name := range rest { // problems are reported by check; the type is unknown
		s.vars.order = append(s.vars.order, name)
		known[name] = nil
		if s.isCircular(name, rest) {
			problems = append(problems, s.problem("spec.vars."+name, "circular reference"))
		}
	}
	if env, err := expr.New(s.static(known)); err == nil && len(rest) > 0 {
		s.env = env
	}
	return problems
}

// evaluate evaluates a variable for the first matrix cell, and adds its value to known. The value determines the type
// of the variable. evaluate returns false if the variable has no value, for example because it uses a variable that
// is not in known.
func (s *Scenario) evaluate(name string, known map[string]any) bool {
	value, err := s.env.Expand(s.vars.values[name],
		expr.Data{"vars": known, "matrix": s.Cells[0].Values, "run": expr.Run{Env: "dev"}.Value()})
	if err != nil {
		return false
	}
	known[name] = value
	s.vars.order = append(s.vars.order, name)
	return true
}

// isCircular reports whether a variable uses one of the variables in rest, which cannot be evaluated.
func (s *Scenario) isCircular(name string, rest []string) bool {
	text, err := yaml.Marshal(s.vars.values[name])
	return err == nil && slices.ContainsFunc(rest,
		func(other string) bool { return strings.Contains(string(text), "vars."+other) })
}

func convertOverride(override, value any) (any, error) {
	text, isText := override.(string)
	if _, wantText := value.(string); isText && !wantText {
		var err error
		override, err = parseValue(text)
		if err != nil {
			return nil, err
		}
	}
	if n, isInt := override.(int); isInt {
		override = int64(n)
	}
	if whole, ok := override.(int64); ok {
		if _, wantFloat := value.(float64); wantFloat {
			override = float64(whole)
		}
	}
	if wanted, isExpression := value.(string); value != nil && (!isExpression || !expr.HasExpression(wanted)) &&
		reflect.TypeOf(override) != reflect.TypeOf(value) {
		return nil, fmt.Errorf(
			"%v has a different type than the value in the scenario; use a value of the same type as %v",
			override, value)
	}
	return override, nil
}

// parseValue parses the override of a variable that is not a string as YAML.
func parseValue(text string) (value any, err error) {
	source, problems := strictyaml.Parse("", []byte(text))
	doc, more := source.Decode(&value, strictyaml.Options{})
	if len(problems)+len(more) > 0 {
		return nil, fmt.Errorf("%q is not valid YAML", text)
	}
	for _, p := range doc.Rewritten() {
		return nil, fmt.Errorf("%s; for a string, put the value in the scenario in quotes", p.Detail)
	}
	return value, nil
}

func (v *variables) evaluateAll(env *expr.Env, cell Cell, run expr.Run) (map[string]any, error) {
	values := maps.Clone(v.values)
	var failed error
	for _, name := range v.order {
		value, err := env.Expand(v.values[name], expr.Data{"vars": values, "matrix": cell.Values, "run": run.Value()})
		if err != nil {
			failed = fmt.Errorf("spec.vars.%s: %w", name, err)
			continue
		}
		values[name] = value
	}
	return values, failed
}
