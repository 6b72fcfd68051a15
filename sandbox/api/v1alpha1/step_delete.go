package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Delete deletes objects.
type Delete struct {
	Ref `json:",inline"`
	// GracePeriod of the deletion. Default: that of the objects.
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty" check:"notNegative"`
	// NoWait ends the step before the objects are gone. Default: false.
	NoWait bool `json:"noWait,omitempty"`
	// IgnoreNotFound lets there be no such object, as kubectl's --ignore-not-found does. Default: false.
	IgnoreNotFound bool `json:"ignoreNotFound,omitempty"`
}

func (d *Delete) title(string) string { return "delete " + d.object() }

func (d *Delete) validate(v *validator, _ *Step, at *field.Path) { v.ref(&d.Ref, at, severalObjects) }
