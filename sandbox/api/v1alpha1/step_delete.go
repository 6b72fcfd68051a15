package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Delete deletes objects.
type Delete struct {
	Ref `json:",inline"`
	// GracePeriod is the grace period of the deletion. Default: the grace period that each object defines.
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty" check:"notNegative"`
	// NoWait ends the step without waiting until the objects are removed. Default: false.
	NoWait bool `json:"noWait,omitempty"`
	// IgnoreNotFound lets the step succeed if no object exists, like kubectl delete --ignore-not-found. Default:
	// false.
	IgnoreNotFound bool `json:"ignoreNotFound,omitempty"`
}

func (d *Delete) title(string) string { return "delete " + d.object() }

func (d *Delete) validate(v *validator, _ *Step, at *field.Path) { v.ref(&d.Ref, at, severalObjects) }
