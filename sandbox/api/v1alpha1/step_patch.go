package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Patch changes one object.
type Patch struct {
	Ref          `json:",inline"`
	ReleaseCheck `json:",inline"`
	// Type is the patch type: merge, strategic or json. Default: strategic, and merge for custom resources.
	Type string `json:"type,omitempty" jsonschema:"enum=merge,enum=strategic,enum=json"`
	// Patch is the content of the patch: a list of operations for the type json, otherwise a partial object.
	Patch Any `json:"patch"`
	// Refused is a substring of the error with which the API server is expected to reject the patch. Default: the API
	// server must accept the patch.
	Refused string `json:"refused,omitempty"`
}

func (p *Patch) title(string) string { return "patch " + p.object() }

// setDefaults sets the default patch type: strategic for built-in kinds, and merge for custom resources.
func (p *Patch) setDefaults(*Step, *ScenarioSpec) {
	gv, err := schema.ParseGroupVersion(p.APIVersion)
	if err == nil && strings.Contains(gv.Group, ".") && !strings.HasSuffix(gv.Group, ".k8s.io") {
		def(&p.Type, "merge")
	}
	def(&p.Type, "strategic")
}

func (p *Patch) validate(v *validator, _ *Step, at *field.Path) {
	v.ref(&p.Ref, at, oneObject)
	_, isList := p.Patch.([]any)
	_, isObject := p.Patch.(map[string]any)
	switch {
	case unevaluated(p.Patch):
	case p.Patch == nil:
		v.add(field.Required(at.Child("patch"), "set the patch"))
	case p.Type == "json" && !isList:
		v.forbid(at.Child("patch"), "must be a list of operations for type json")
	case p.Type != "json" && !isObject:
		v.forbid(at.Child("patch"), "must be a part of the object for type %s; for a list of operations, set type json",
			p.Type)
	}
}
