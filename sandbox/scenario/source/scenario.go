package source

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

// Scenario is a validated scenario file.
type Scenario struct {
	// Scenario is the content of the file with defaults. Fields whose value contains an expression are set only in an
	// Instance.
	Scenario *v1alpha1.Scenario
	// File is the path of the scenario file. Dir is the directory of the file.
	File, Dir string
	// Overrides contains the new values of the variables that Options.Vars overrides, by variable name.
	Overrides map[string]any
	// Cells lists the cells of the matrix, sorted by name. If the scenario has no matrix, Cells contains a single
	// cell without values.
	Cells []Cell

	// Steps lists the names of all steps, for all cells, with their expressions evaluated.
	Steps []string

	source        *strictyaml.Source
	doc           *strictyaml.Document
	env           *expr.Env
	vars          *variables
	problemFields map[string]bool // fields that have problems
	files         map[string]*manifest
	hasUnreadable bool // true if a manifest could not be read completely
}

// Cell is one combination of matrix values.
type Cell struct {
	// Name is the display name, such as bases=4,tunnel=mqtt; empty without a matrix.
	Name string
	// Values maps each matrix dimension to the value of this cell.
	Values map[string]any
}

// kindLine and groupLine match the lines of a YAML text that contain the kind and the API group at the top level.
var (
	kindLine  = regexp.MustCompile(`(?m)^kind:\s*["']?(\w+)["']?\s*(#.*)?$`)
	groupLine = regexp.MustCompile(`(?m)^apiVersion:\s*["']?` + regexp.QuoteMeta(path.Dir(v1alpha1.APIVersion)) + `/`)
)

// IsScenario reports whether a YAML text is a scenario. It also returns true if the kind is misspelled.
func IsScenario(text []byte) bool {
	kind := ""
	if found := kindLine.FindSubmatch(text); found != nil {
		kind = string(found[1])
	}
	return kind != v1alpha1.Kind &&
		(groupLine.Match(text) || plain.DidYouMean(kind, []string{v1alpha1.ScenarioKind}) != "")
}

func (s *Scenario) problem(path, detail string) Problem {
	return Problem{Source: s.File, Line: s.doc.Line(path), Field: path, Detail: detail}
}

// prepare validates the scenario and fills in its derived fields.
func (s *Scenario) prepare(o Options) Problems {
	if s.Scenario.Kind != "" && s.Scenario.Kind != v1alpha1.ScenarioKind {
		v1alpha1.SetScenarioDefaults(s.Scenario)
		return Problems{s.problem("kind",
			fmt.Sprintf("unexpected kind %q; want %s", s.Scenario.Kind, v1alpha1.ScenarioKind))}
	}
	given := maps.Clone(s.Scenario.Spec.Vars)
	v1alpha1.SetScenarioDefaults(s.Scenario)
	s.problemFields, s.files = map[string]bool{}, map[string]*manifest{}
	s.cells()
	problems := s.resolve(given, o)
	if s.env == nil {
		return problems
	}
	checked, used := s.check()
	problems = append(append(problems, checked...), s.checkNumbers()...)
	for _, p := range problems {
		s.problemFields[p.Field] = true
	}
	sample := expr.Run{Namespace: "run", Group: "run", Seed: 1, Env: "dev", Attempt: 1}
	for _, cell := range s.Cells {
		instance, wrong := s.instance(cell, sample)
		for _, p := range append(wrong, instance.objects()...) {
			if !s.hasProblem(p.Field) {
				problems = append(problems, p)
			}
		}
		wrong = instance.manifests(used)
		problems = append(problems, wrong...)
		if len(wrong) == 0 {
			problems = append(problems, instance.names()...)
		}
		for _, step := range instance.Spec.Steps {
			if !slices.Contains(s.Steps, step.Name) {
				s.Steps = append(s.Steps, step.Name)
			}
		}
	}
	if s.hasUnreadable {
		return problems
	}
	return append(problems, s.unused(used, problems)...)
}

func (s *Scenario) hasProblem(path string) bool {
	for wrong := range s.problemFields {
		if within(path, wrong) {
			return true
		}
	}
	return false
}

// cells returns all combinations of matrix values.
func (s *Scenario) cells() {
	s.Cells = []Cell{{}}
	matrix := s.Scenario.Spec.Matrix
	for _, name := range slices.Sorted(maps.Keys(matrix)) {
		var longer []Cell
		for _, cell := range s.Cells {
			for _, value := range matrix[name] {
				values := map[string]any{name: value}
				maps.Copy(values, cell.Values)
				longer = append(longer,
					Cell{Name: strings.TrimPrefix(cell.Name+","+name+"="+formatValue(value), ","), Values: values})
			}
		}
		s.Cells = longer
		if len(s.Cells) > v1alpha1.MaxCells { // validation reports this
			s.Cells = s.Cells[:1]
			return
		}
	}
	if len(s.Cells) == 0 { // a dimension has no values: validation reports this
		s.Cells = []Cell{{}}
	}
}

func formatValue(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, name+": "+formatValue(v[name]))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, formatValue(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(value)
}

func (s *Scenario) static(vars map[string]any) expr.Static {
	spec := &s.Scenario.Spec
	static := expr.Static{Vars: vars, Matrix: map[string][]any{}, Streams: []string{}, Sets: []string{}}
	for name, values := range spec.Matrix {
		for _, value := range values {
			static.Matrix[name] = append(static.Matrix[name], value)
		}
	}
	names := s.Scenario.Names()
	static.Sets = append(static.Sets, slices.Sorted(maps.Keys(names.Sets))...)
	static.Streams = append(static.Streams, slices.Sorted(maps.Keys(names.Streams))...)
	static.Outputs = append(static.Outputs, slices.Sorted(maps.Keys(names.Outputs))...)
	if slices.ContainsFunc(static.Streams, expr.HasExpression) {
		static.Streams = nil
	}
	if slices.ContainsFunc(static.Sets, expr.HasExpression) {
		static.Sets = nil
	}
	return static
}
