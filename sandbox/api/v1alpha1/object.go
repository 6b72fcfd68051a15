package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Any is a value of any type.
type Any any

// Object is a Kubernetes object, or a partial Kubernetes object.
type Object map[string]Any

// Unstructured returns the object in the type that dynamic clients use.
func (o Object) Unstructured() *unstructured.Unstructured {
	content := make(map[string]any, len(o))
	for k, v := range o {
		content[k] = v
	}
	return &unstructured.Unstructured{Object: content}
}

// Ref selects one object by name, or several objects by labels.
type Ref struct {
	// APIVersion and Kind are required.
	APIVersion string `json:"apiVersion" need:"such as apps/v1"`
	Kind       string `json:"kind" need:"such as Deployment"`
	// Name is the name of one object. It cannot be combined with Labels.
	Name string `json:"name,omitempty"`
	// Labels are the labels of the selected objects. They cannot be combined with Name.
	Labels map[string]string `json:"labels,omitempty"`
	// Namespace is the namespace of the objects. Only wait and assert accept a namespace other than the namespace of
	// the run. Default: the namespace of the run.
	Namespace string `json:"namespace,omitempty"`
}

// object returns the kind and the name of the object. If the Ref has no name, it returns the plural of the kind.
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

// EachObject calls visit for an object, or for each item of a List, with its field path.
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

// ObjectProblems returns a problem for each object without apiVersion, kind or name. An object may be a List of
// objects.
func ObjectProblems(o Object, at *field.Path) (errs field.ErrorList) {
	EachObject(o.Unstructured().Object, at, func(o map[string]any, at *field.Path) {
		errs = append(errs, typeProblems(o, at)...)
		metadata, _ := o["metadata"].(map[string]any)
		if name := metadata["name"]; name != nil && name != "" { // a wrong type of the name is reported elsewhere
			return
		}
		detail := "set the name of the object"
		if metadata["generateName"] != nil {
			detail = "set a fixed name; generateName is not supported, because steps refer to objects by name"
		}
		errs = append(errs, field.Required(at.Child("metadata", "name"), detail))
	})
	return errs
}

func typeProblems(o map[string]any, at *field.Path) (errs field.ErrorList) {
	for _, name := range []string{"apiVersion", "kind"} {
		if text, _ := o[name].(string); text == "" {
			errs = append(errs, field.Required(at.Child(name), "the object has no type; set apiVersion and kind"))
		}
	}
	return errs
}

// checkPartialObject checks that a partial object selects objects by a name or by labels.
func (v *validator) checkPartialObject(o Object, at *field.Path) {
	v.errs = append(v.errs, typeProblems(o.Unstructured().Object, at)...)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	labels, _ := metadata["labels"].(map[string]any)
	if name == "" && len(labels) == 0 && !unevaluated(o["metadata"]) {
		v.add(field.Required(at.Child("metadata"), "select the object by name or by labels"))
	}
}

// unevaluated reports whether a value still contains an expression.
func unevaluated(value any) bool {
	text, ok := value.(string)
	return ok && HasExpression(text)
}

// The number of objects that a Ref must select.
const (
	oneObject      = false
	severalObjects = true
)

func (v *validator) ref(r *Ref, at *field.Path, several bool) {
	switch {
	case several && (r.Name == "") == (len(r.Labels) == 0):
		v.forbid(at, "must have either a name or labels")
	case !several && len(r.Labels) > 0:
		v.forbid(at.Child("labels"), "can select several objects; set the name of one object")
	case !several:
		v.need(at.Child("name"), r.Name, "set the name of the object")
	}
	for _, key := range sorted(r.Labels) {
		v.check(at.Child("labels").Key(key), r.Labels[key], "labelValue")
	}
}

// workload checks that a Ref names a kind of workload that has revisions.
func (v *validator) workload(r *Ref, at *field.Path) {
	if kinds := []string{"Deployment", "DaemonSet", "StatefulSet"}; r.Kind != "" && !HasExpression(r.Kind) &&
		!slices.Contains(kinds, r.Kind) {
		v.add(field.NotSupported(at.Child("kind"), r.Kind, kinds))
	}
}
