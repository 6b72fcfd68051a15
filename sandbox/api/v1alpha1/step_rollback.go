package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

// Rollback takes a Deployment, DaemonSet or StatefulSet back.
type Rollback struct {
	Ref          `json:",inline"`
	ReleaseCheck `json:",inline"`
	// Revision to go back to. Default: the one before the present one.
	Revision *int64 `json:"revision,omitempty" jsonschema:"minimum=1"`
}

func (r *Rollback) title(string) string { return "rollback " + r.object() }

func (r *Rollback) validate(v *validator, _ *Step, at *field.Path) {
	v.ref(&r.Ref, at, oneObject)
	v.workload(&r.Ref, at)
}
