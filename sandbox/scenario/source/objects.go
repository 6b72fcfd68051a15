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

// objects checks the objects, and the parts of objects, in the steps of an instance.
func (i *Instance) objects() (problems Problems) {
	i.EachStep(func(at *field.Path, step *v1alpha1.Step) {
		p := func(names ...string) part { return part{i.Of.File, i.doc, at.Child(names[0], names[1:]...).String()} }
		switch {
		case step.Apply != nil && len(step.Apply.Resource) > 0:
			problems = append(problems, p("apply", "resource").applied(step.Apply.Resource, step.Apply.Refused != "", i.Run.Namespace)...)
		case step.Assert != nil && len(step.Assert.Resource) > 0:
			problems = append(problems, p("assert", "resource").check(step.Assert.Resource.Unstructured().Object)...)
		case step.Patch != nil:
			if step.Patch.Refused == "" {
				problems = append(problems, p("patch", "patch").types(step.Patch.APIVersion, step.Patch.Kind)...)
			}
			problems = append(problems, p("patch").written(&step.Patch.Ref, i.Run.Namespace)...)
		case step.Delete != nil:
			problems = append(problems, p("delete").written(&step.Delete.Ref, i.Run.Namespace)...)
		case step.Scale != nil:
			problems = append(problems, p("scale").written(&step.Scale.Ref, i.Run.Namespace)...)
		case step.Rollback != nil:
			problems = append(problems, p("rollback").written(&step.Rollback.Ref, i.Run.Namespace)...)
		}
	})
	return problems
}

// part is an object, or a part of one, in a file.
type part struct {
	file string
	doc  *strictyaml.Document
	at   string // its field; empty: it is the document
}

func (p part) problem(at, format string, args ...any) Problem {
	return Problem{Source: p.file, Line: p.doc.Line(at), Field: at, Detail: fmt.Sprintf(format, args...)}
}

// applied checks an object that a step applies, or the items of a List. The API may be expected to refuse it.
func (p part) applied(o v1alpha1.Object, refused bool, namespace string) (problems Problems) {
	p.each(o.Unstructured().Object, func(p part, o map[string]any) {
		problems = append(problems, p.scope(o, namespace)...)
		if !refused {
			problems = append(problems, p.check(o)...)
		}
	})
	return problems
}

// each visits an object, or the items of a List.
func (p part) each(o map[string]any, visit func(part, map[string]any)) {
	items, isList := o["items"].([]any)
	if !isList {
		visit(p, o)
	}
	for n, item := range items {
		if object, isObject := item.(map[string]any); isObject {
			part{p.file, p.doc, fmt.Sprintf("%s[%d]", strictyaml.Member(p.at, "items"), n)}.each(object, visit)
		}
	}
}

// check reports values that the API server would refuse: those of another type, and labels.
func (p part) check(o map[string]any) Problems {
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	return append(p.types(apiVersion, kind), p.labels(o, p.at, "", "")...)
}

// types reports values that are of another type than their field, for the kinds of Kubernetes itself.
func (p part) types(apiVersion, kind string) (problems Problems) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil
	}
	object, err := scheme.Scheme.New(gv.WithKind(kind))
	if err != nil {
		return nil // the API server knows its custom resources
	}
	_, problems = p.doc.Source(p.at).Decode(object, strictyaml.Options{Expression: expr.Has, Partial: true})
	for n := range problems {
		problems[n].Field = strings.TrimPrefix(p.at+"."+problems[n].Field, ".")
	}
	return problems
}

// labels reports values of labels and of selectors that are not label values, in a value in the field
// name of the field parent.
func (p part) labels(value any, at, parent, name string) (problems Problems) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			problems = append(problems, p.labels(value[key], strictyaml.Member(at, key), name, key)...)
			text, isText := value[key].(string)
			isLabel := name == "matchLabels" || name == "nodeSelector" || name == "labels" && parent == "metadata"
			if isLabel && isText && !expr.Has(text) && len(validation.IsValidLabelValue(text)) > 0 {
				problems = append(problems, p.problem(strictyaml.Member(at, key), "%q is not a label value, so the API server refuses it: %s", text, v1alpha1.LabelValue))
			}
		}
	case []any:
		for n, item := range value {
			problems = append(problems, p.labels(item, fmt.Sprintf("%s[%d]", at, n), parent, name)...)
		}
	}
	return problems
}

// scope reports an object outside the namespace of the run, which other runs and later runs would find.
func (p part) scope(o map[string]any, namespace string) Problems {
	u := &unstructured.Unstructured{Object: o}
	outside := kube.Outside(u, kube.ClusterScoped(u.GroupVersionKind().GroupKind()), namespace)
	if outside == "" || expr.Has(u.GetNamespace()) || expr.Has(u.GetName()) {
		return nil
	}
	at := "name"
	if u.GetNamespace() != "" {
		at = "namespace"
	}
	return Problems{p.problem(strictyaml.Member(strictyaml.Member(p.at, "metadata"), at), "%s", outside)}
}

// written reports a step that changes objects in a namespace that is not the run's.
func (p part) written(r *v1alpha1.Ref, namespace string) Problems {
	if r.Namespace == "" || r.Namespace == namespace || expr.Has(r.Namespace) {
		return nil
	}
	return Problems{p.problem(strictyaml.Member(p.at, "namespace"),
		"a run changes objects only in its own namespace, because other runs share namespace %s: remove this field", r.Namespace)}
}

// rewritten reports numbers among the variables and in the matrix that print differently from their text:
// an expression would put another text in their place.
func (s *Scenario) rewritten() (problems Problems) {
	for _, r := range s.doc.Rewritten() {
		if strings.HasPrefix(r.Field, "spec.vars.") || strings.HasPrefix(r.Field, "spec.matrix[") || strings.Contains(r.Field, ".apply.vars.") {
			problems = append(problems, Problem{Source: s.File, Line: r.Line, Field: r.Field, Detail: r.String()})
		}
	}
	return problems
}
