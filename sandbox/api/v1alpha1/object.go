package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Any is a value of any type.
type Any any

// Object is an object of Kubernetes, or a part of one.
type Object map[string]Any

// Unstructured returns the object for clients of the API.
func (o Object) Unstructured() *unstructured.Unstructured {
	content := make(map[string]any, len(o))
	for k, v := range o {
		content[k] = v
	}
	return &unstructured.Unstructured{Object: content}
}

// Ref names objects: one by its name, or several by labels.
type Ref struct {
	// APIVersion and Kind are required.
	APIVersion string `json:"apiVersion" need:"such as apps/v1"`
	Kind       string `json:"kind" need:"such as Deployment"`
	// Name of one object. Default: by Labels.
	Name string `json:"name,omitempty"`
	// Labels that the objects bear. Default: by Name.
	Labels map[string]string `json:"labels,omitempty"`
	// Namespace of the objects. Only wait and assert may name another namespace than the run's. Default:
	// the namespace of the run.
	Namespace string `json:"namespace,omitempty"`
}

// object returns the kind and the name of the object.
func (r *Ref) object() string {
	if r.Name != "" || len(r.Labels) == 0 {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "s"
}

func (o Object) title() string {
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	if name, ok := metadata["name"].(string); ok {
		return kind + "/" + name
	}
	return kind
}

func (r *Ref) refs() []Ref { return []Ref{*r} }

func (r *Ref) changes() *Ref { return r }

// EachObject visits an object, or the items of a List, with their field paths.
func EachObject(o map[string]any, at *field.Path, visit func(o map[string]any, at *field.Path)) {
	items, isList := o["items"].([]any)
	if !isList {
		visit(o, at)
	}
	for i, item := range items {
		object, _ := item.(map[string]any)
		EachObject(object, at.Child("items").Index(i), visit)
	}
}

// ObjectProblems returns the problems of objects that have no type or no name. An object may be a List of objects.
func ObjectProblems(o Object, at *field.Path) (errs field.ErrorList) {
	EachObject(o.Unstructured().Object, at, func(o map[string]any, at *field.Path) {
		errs = append(errs, typeProblems(o, at)...)
		metadata, _ := o["metadata"].(map[string]any)
		if name := metadata["name"]; name != nil && name != "" { // a wrong type of the name is reported elsewhere
			return
		}
		detail := "give the object a name"
		if metadata["generateName"] != nil {
			detail = "give the object a fixed name, which is unique in the namespace of the run: generateName is not " +
				"supported, because steps refer to objects by name"
		}
		errs = append(errs, field.Required(at.Child("metadata", "name"), detail))
	})
	return errs
}

func typeProblems(o map[string]any, at *field.Path) (errs field.ErrorList) {
	for _, name := range []string{"apiVersion", "kind"} {
		if text, _ := o[name].(string); text == "" {
			errs = append(errs, field.Required(at.Child(name), "say which kind of object it is"))
		}
	}
	return errs
}

// part checks that a part of an object names the object.
func (v *validator) part(o Object, at *field.Path) {
	v.errs = append(v.errs, typeProblems(o.Unstructured().Object, at)...)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	labels, _ := metadata["labels"].(map[string]any)
	if name == "" && len(labels) == 0 && !unevaluated(o["metadata"]) {
		v.add(field.Required(at.Child("metadata"), "say which object, by name or by labels"))
	}
}

// unevaluated reports whether a value is an expression that is not evaluated yet.
func unevaluated(value any) bool {
	text, ok := value.(string)
	return ok && HasExpression(text)
}

// how many objects a Ref may name.
const (
	oneObject      = false
	severalObjects = true
)

func (v *validator) ref(r *Ref, at *field.Path, several bool) {
	switch {
	case several && (r.Name == "") == (len(r.Labels) == 0):
		v.forbid(at, "takes either a name or labels")
	case !several && len(r.Labels) > 0:
		v.forbid(at.Child("labels"), "may stand for several objects: give the name of one")
	case !several:
		v.need(at.Child("name"), r.Name, "say which object")
	}
	for _, key := range sorted(r.Labels) {
		v.check(at.Child("labels").Key(key), r.Labels[key], "labelValue")
	}
}

// workload checks that a Ref names a kind with revisions.
func (v *validator) workload(r *Ref, at *field.Path) {
	if kinds := []string{"Deployment", "DaemonSet", "StatefulSet"}; r.Kind != "" && !HasExpression(r.Kind) &&
		!slices.Contains(kinds, r.Kind) {
		v.add(field.NotSupported(at.Child("kind"), r.Kind, kinds))
	}
}
