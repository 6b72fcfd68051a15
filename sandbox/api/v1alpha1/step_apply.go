package v1alpha1

import (
	"path"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Apply creates or updates objects in the namespace of the run. It adds a node selector to module Pods and to the
// module Pod templates of objects of any kind, so that the Pods are scheduled only to the bases of the run.
type Apply struct {
	// File is the path of a manifest file, relative to the scenario. The manifests can contain expressions. The
	// namespace of the run replaces the namespaces in the file. File cannot be combined with Resource.
	File string `json:"file,omitempty" jsonschema:"oneof_required=file"`
	// Resource is the object to apply. It cannot be combined with File.
	Resource Object `json:"resource,omitempty" jsonschema:"oneof_required=resource"`
	// Vars holds additional variables for expressions in File, as vars.NAME. Default: none.
	Vars map[string]Any `json:"vars,omitempty" check:"identifier"`
	// Refused is a substring of the error with which the API server is expected to reject the objects. Default: the
	// API server must accept the objects.
	Refused      string `json:"refused,omitempty"`
	ReleaseCheck `json:",inline"`
}

// ReleaseCheck is a setting that is shared by all steps that can change the Pod template of a workload.
type ReleaseCheck struct {
	// MayChangeNothing lets the run pass even if the new Pod template changes nothing on any base, as after kubectl
	// rollout restart. Default: false.
	MayChangeNothing bool `json:"mayChangeNothing,omitempty"`
}

func (a *Apply) title(string) string {
	if a.File != "" {
		return "apply " + path.Base(a.File)
	}
	return "apply " + a.Resource.title()
}

func (a *Apply) validate(v *validator, _ *Step, at *field.Path) {
	switch {
	case (a.File == "") == (len(a.Resource) == 0):
		v.forbid(at, "must have either a file or a resource")
	case a.File != "" && path.IsAbs(a.File):
		v.invalid(at.Child("file"), a.File, "must be relative to the directory of the scenario")
	case a.File == "":
		v.errs = append(v.errs, ObjectProblems(a.Resource, at.Child("resource"))...)
		if len(a.Vars) > 0 {
			v.forbid(at.Child("vars"), "requires a file; a resource can use spec.vars")
		}
	}
}
