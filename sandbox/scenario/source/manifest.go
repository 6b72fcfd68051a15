package source

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
)

// manifest is a file that an apply step applies.
type manifest struct {
	path     string
	sources  []*strictyaml.Source
	problems Problems
}

func (s *Scenario) manifest(name string) *manifest {
	if m, ok := s.files[name]; ok {
		return m
	}
	m := &manifest{path: filepath.Join(s.Dir, name)}
	s.files[name] = m
	text, err := os.ReadFile(m.path)
	if err != nil {
		m.problems = Problems{unreadable(m.path, err)}
		return m
	}
	m.sources, m.problems = strictyaml.ParseAll(m.path, text)
	if len(m.problems) == 0 && len(m.sources) == 0 {
		m.problems = Problems{{Source: m.path, Detail: "the file is empty"}}
	}
	return m
}

// manifests checks the files of all apply steps. It adds the names that expressions in these files use to used.
func (i *Instance) manifests(used usage) Problems {
	var problems Problems
	i.EachStep(func(at *field.Path, step *v1alpha1.Step) {
		if step.Apply == nil || step.Apply.File == "" || expr.HasExpression(step.Apply.File) ||
			filepath.IsAbs(step.Apply.File) {
			return
		}
		at = at.Child("apply")
		m := i.Origin.manifest(step.Apply.File)
		problems = append(problems, m.problems...)
		if len(m.problems) > 0 { // unreadable parts may use any name
			i.Origin.hasUnreadable = true
		}
		if len(m.sources) == 0 { // report the problem at the step
			p := i.Origin.problem(at.Child("file").String(), "")
			problems[len(problems)-1] = Problem{Source: p.Source, Line: p.Line, Field: p.Field,
				Detail: m.problems[0].Source + ": " + m.problems[0].Detail}
			return
		}
		names, wrong := i.checkManifest(m, step.Apply)
		problems = append(problems, wrong...)
		for _, name := range slices.Sorted(maps.Keys(step.Apply.Vars)) {
			if len(m.problems) == 0 && !names["vars."+name] && !isSuggested(name, wrong) {
				problems = append(problems,
					i.Origin.problem(at.Child("vars", name).String(),
						"unused variable in "+m.path+"; remove it"))
			}
		}
		for name := range names {
			if own, isVar := strings.CutPrefix(name, "vars."); isVar {
				if _, hidden := step.Apply.Vars[own]; hidden {
					continue
				}
			}
			used[name] = true
		}
	})
	return problems
}

// checkManifest compiles the expressions of a file with the variables of the step. It returns the names that the
// expressions use.
func (i *Instance) checkManifest(m *manifest, apply *v1alpha1.Apply) (usage, Problems) {
	static := i.Static
	static.Vars = maps.Clone(static.Vars)
	for name, value := range apply.Vars {
		static.Vars[name] = value
	}
	env, err := expr.New(static)
	if err != nil {
		return nil, Problems{{Source: m.path, Detail: err.Error()}}
	}
	used := usage{}
	var problems Problems
	var objects []*unstructured.Unstructured
	var checks []func() Problems
	for _, source := range m.sources {
		object := v1alpha1.Object{}
		doc, wrong := source.Decode(&object, strictyaml.Options{Expression: expr.HasExpression})
		problems = append(problems, wrong...)
		for _, e := range v1alpha1.ObjectProblems(object, nil) {
			problems = append(problems,
				Problem{Source: m.path, Line: doc.Line(e.Field), Field: e.Field, Detail: "missing; " + e.Detail})
		}
		before := len(problems)
		for _, e := range doc.Expressions() {
			t, err := env.Template(e.Text)
			if err != nil {
				used.addFromText(e.Text)
				problems = append(problems, located(m.path, e.Field, e.Line, err)...)
				continue
			}
			used.add(t.Uses())
		}
		if len(problems) == before { // check the object with the values of its expressions
			expanded, _ := expand(source, env, i.known(static.Vars))
			doc, _ = expanded.Decode(&object, strictyaml.Options{Expression: expr.HasExpression})
			i.addApplied(object)
			checks = append(checks, func() Problems {
				return objectInFile{m.path, doc, ""}.checkApplyObject(object, apply.Refused, i.Run.Namespace)
			})
			v1alpha1.EachObject(object.Unstructured().Object, nil, func(o map[string]any, _ *field.Path) {
				objects = append(objects, &unstructured.Unstructured{Object: o})
			})
		}
	}
	if err := kube.MoveIntoRun(objects); err != nil {
		problems = append(problems, Problem{Source: m.path, Detail: err.Error()})
	}
	for _, check := range checks {
		problems = append(problems, check()...)
	}
	return used, problems
}
