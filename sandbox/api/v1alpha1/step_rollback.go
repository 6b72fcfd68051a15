package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

// Rollback returns a Deployment, DaemonSet or StatefulSet to an earlier revision.
type Rollback struct {
	Ref          `json:",inline"`
	ReleaseCheck `json:",inline"`
	// Revision is the revision to return to. Default: the previous revision.
	Revision *int64 `json:"revision,omitempty" jsonschema:"minimum=1"`
}

func (r *Rollback) title(string) string { return "rollback " + r.object() }

func (r *Rollback) validate(v *validator, _ *Step, at *field.Path) {
	v.ref(&r.Ref, at, oneObject)
	v.workload(&r.Ref, at)
}
