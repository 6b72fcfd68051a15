package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
)

// objects checks the complete and partial objects in the steps of an instance.
func (i *Instance) objects() (problems Problems) {
	i.EachStep(func(at *field.Path, step *v1alpha1.Step) {
		of := func(names ...string) objectInFile {
			return objectInFile{i.Origin.File, i.doc, at.Child(names[0], names[1:]...).String()}
		}
		switch {
		case step.Apply != nil:
			i.addApplied(step.Apply.Resource)
			problems = append(problems,
				of("apply", "resource").checkApplyObject(step.Apply.Resource, step.Apply.Refused, i.Run.Namespace)...)
		case step.Assert != nil:
			problems = append(problems, of("assert", "resource").check(step.Assert.Resource.Unstructured())...)
		case step.Patch != nil && step.Patch.Refused == "":
			problems = append(problems,
				of("patch", "patch").types(schema.FromAPIVersionAndKind(step.Patch.APIVersion, step.Patch.Kind))...)
		}
		if r := step.Changes(); r != nil && r.Namespace != "" && r.Namespace != i.Run.Namespace &&
			!expr.HasExpression(r.Namespace) {
			p := of(step.Kind(), "namespace")
			problems = append(problems,
				p.problem(p.at,
					"a run can change objects only in its own namespace, because other runs share namespace %s; "+
						"remove this field", r.Namespace))
		}
	})
	return problems
}

// container is the key of Instance.applied for the names of containers, which are the names of modules.
const container = "container"

// addApplied adds an object, or the items of a List, to i.applied.
func (i *Instance) addApplied(o v1alpha1.Object) {
	if i.applied == nil {
		i.applied = map[string][]string{}
	}
	v1alpha1.EachObject(o.Unstructured().Object, nil, func(o map[string]any, _ *field.Path) {
		u := &unstructured.Unstructured{Object: o}
		i.applied[u.GetKind()] = append(i.applied[u.GetKind()], u.GetName())
		i.addContainers(o)
	})
}

// addContainers adds the containers at any depth of a value to i.applied.
func (i *Instance) addContainers(value any) {
	kube.EachMapping(value, func(spec map[string]any) bool {
		for _, key := range []string{"containers", "initContainers"} {
			list, _ := spec[key].([]any)
			for _, item := range list {
				c, _ := item.(map[string]any)
				name, _ := c["name"].(string)
				i.applied[container] = append(i.applied[container], name)
			}
		}
		return true
	})
}

// names returns a problem for each step that refers to a workload, a Service or a module that no step applies, although
// steps apply other objects of its kind. It returns none if steps may create objects that are unknown before the run.
func (i *Instance) names() (problems Problems) {
	unknown := false
	i.EachStep(func(_ *field.Path, step *v1alpha1.Step) {
		unknown = unknown || step.Script != nil || step.Apply != nil && expr.HasExpression(step.Apply.File)
		if step.Patch != nil {
			delete(i.applied, container) // the patch may add a container
		}
	})
	if unknown {
		return nil
	}
	check := func(at *field.Path, kind, name string) {
		names := i.applied[kind]
		if name == "" || len(names) == 0 || slices.Contains(names, name) || expr.HasExpression(name) ||
			slices.ContainsFunc(names, expr.HasExpression) {
			return
		}
		problems = append(problems, i.Origin.problem(at.String(), fmt.Sprintf("no step applies %s %q; use one of: %s",
			kind, name, strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", "))))
	}
	i.EachStep(func(at *field.Path, step *v1alpha1.Step) {
		at, ref := at.Child(step.Kind()), step.Changes()
		switch {
		case step.Traffic != nil && step.Traffic.Start != nil:
			check(at.Child("start", "service"), "Service", step.Traffic.Start.Service)
			check(at.Child("start", "module"), container, step.Traffic.Start.Module)
			return
		case step.Wait != nil && step.Wait.Rollout != nil:
			at, ref = at.Child("rollout"), step.Wait.Rollout
		case step.Release == nil && step.Rollback == nil && step.Scale == nil:
			return
		}
		if ref.Namespace == "" {
			check(at.Child("name"), ref.Kind, ref.Name)
		}
	})
	return problems
}

// objectInFile is a complete or partial object in a file.
type objectInFile struct {
	file string
	doc  *strictyaml.Document
	at   string // path of the object in doc; empty for the whole document
}

func (p objectInFile) problem(at, format string, args ...any) Problem {
	return Problem{Source: p.file, Line: p.doc.Line(at), Field: at, Detail: fmt.Sprintf(format, args...)}
}

// checkApplyObject checks an object that a step applies. For a List, it checks the items. It does not check values if
// the step expects the API to reject the object. An object outside the namespace of the run is a problem, because
// other runs would share the object.
func (p objectInFile) checkApplyObject(o v1alpha1.Object, refused, namespace string) (problems Problems) {
	var root *field.Path
	if p.at != "" {
		root = field.NewPath(p.at)
	}
	v1alpha1.EachObject(o.Unstructured().Object, root, func(o map[string]any, at *field.Path) {
		if at != nil {
			p.at = at.String()
		}
		u := &unstructured.Unstructured{Object: o}
		outside := kube.OutsideRun(u, kube.ClusterScoped(u.GroupVersionKind().GroupKind()), namespace)
		if outside != "" && !expr.HasExpression(u.GetNamespace()+u.GetName()) {
			name := "name"
			if u.GetNamespace() != "" {
				name = "namespace"
			}
			problems = append(problems,
				p.problem(strictyaml.Member(strictyaml.Member(p.at, "metadata"), name), "%s", outside))
		}
		if refused == "" {
			problems = append(problems, p.check(u)...)
		}
	})
	return problems
}

// check returns problems for values that the API server would reject: values of the wrong type, and invalid label
// values.
func (p objectInFile) check(o *unstructured.Unstructured) Problems {
	return append(p.types(o.GroupVersionKind()), p.labels(o.Object, p.at, "", "")...)
}

// types returns problems for values whose type differs from the type of their field. It checks only built-in kinds,
// because it does not know the types of custom resources.
func (p objectInFile) types(kind schema.GroupVersionKind) Problems {
	if !scheme.Scheme.Recognizes(kind) {
		return nil
	}
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return Problems{p.problem(p.at, "%s", err)}
	}
	_, problems := p.doc.Source(p.at).Decode(object, strictyaml.Options{Expression: expr.HasExpression, Partial: true})
	return problems
}

// labels returns problems for invalid label values in labels and selectors, at any depth of value. name is the field
// that contains value, and parent is the field that contains the field name.
func (p objectInFile) labels(value any, at, parent, name string) (problems Problems) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			problems = append(problems, p.labels(value[key], strictyaml.Member(at, key), name, key)...)
			text, isText := value[key].(string)
			isLabel := name == "matchLabels" || name == "nodeSelector" || name == "labels" && parent == "metadata"
			if isLabel && isText && !expr.HasExpression(text) && len(validation.IsValidLabelValue(text)) > 0 {
				problems = append(problems,
					p.problem(strictyaml.Member(at, key), "invalid label value %q: %s",
						text, v1alpha1.LabelValue))
			}
		}
	case []any:
		for n, item := range value {
			problems = append(problems, p.labels(item, fmt.Sprintf("%s[%d]", at, n), parent, name)...)
		}
	}
	return problems
}

// checkNumbers returns problems for numbers in variables and in the matrix whose formatted value differs from their
// source text. For example, an expression would insert 1.10 as 1.1.
func (s *Scenario) checkNumbers() (problems Problems) {
	for _, p := range s.doc.Rewritten() {
		if strings.HasPrefix(p.Field, "spec.vars.") || strings.HasPrefix(p.Field, "spec.matrix[") ||
			strings.Contains(p.Field, ".apply.vars.") {
			problems = append(problems, p)
		}
	}
	return problems
}
