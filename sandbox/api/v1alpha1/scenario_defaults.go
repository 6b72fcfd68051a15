package v1alpha1

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultSet is the default name of a set of bases. The tag of BaseSet.Name contains the same name.
const defaultSet = "base"

// SetScenarioDefaults sets the default value of every field that is not set. The environment and the runtime of bases
// stay empty if they default to the values of the sandbox.
func SetScenarioDefaults(s *Scenario) {
	def(&s.APIVersion, APIVersion)
	def(&s.Kind, ScenarioKind)
	spec := &s.Spec
	setDefaults(reflect.ValueOf(spec.Bases))
	inheritSets(s)
	exclusive := spec.Controller != nil
	s.EachStep(func(_ *field.Path, step *Step) {
		d := step.disruption()
		exclusive = exclusive || d.sandbox
		if d.proxy {
			if spec.Controller == nil {
				spec.Controller = &ControllerNeeds{}
			}
			spec.Controller.APIView = true
		}
	})
	setDefaults(reflect.ValueOf(spec))
	for i := range spec.Bases {
		def(&spec.Bases[i].BaseName, spec.Bases[i].Name)
	}
	s.EachStep(func(_ *field.Path, step *Step) { setStepDefaults(step, spec) })
	nameSteps(spec.Steps)
	nameSteps(spec.Finally)
	if spec.Exclusive == nil {
		spec.Exclusive = &exclusive
	}
}
