package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultSet is the name of a set of bases whose author gives none, as its tag says too.
const defaultSet = "base"

// SetScenarioDefaults fills every setting of a scenario that is not given. The environment and the
// runtime of bases stay empty: they are those of the sandbox. A step that adds bases to a set that
// there is gets the settings of the set.
func SetScenarioDefaults(s *Scenario) {
	def(&s.APIVersion, APIVersion)
	def(&s.Kind, ScenarioKind)
	spec := &s.Spec
	setDefaults(reflect.ValueOf(spec.Bases))
	sets := map[string]*BaseSet{}
	for i := range spec.Bases {
		sets[spec.Bases[i].Name] = &spec.Bases[i]
	}
	exclusive := spec.Controller != nil
	s.EachStep(func(_ *field.Path, step *Step) {
		if step.Base != nil && step.Base.Add != nil {
			likeItsSet(step.Base.Add, sets)
		}
		exclusive = exclusive || step.DisturbsAll()
		if step.needsProxy() {
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
	s.EachStep(func(_ *field.Path, step *Step) { setStepDefaults(step, spec.StepTimeout.Duration) })
	nameSteps(spec.Steps)
	nameSteps(spec.Finally)
	if spec.Exclusive == nil {
		spec.Exclusive = &exclusive
	}
}

// likeItsSet gives bases that a step adds the settings of their set, but for the count, where they
// have none of their own. The first step that adds to a set defines it.
func likeItsSet(b *BaseSet, sets map[string]*BaseSet) {
	def(&b.Name, defaultSet)
	set, there := sets[b.Name]
	if !there {
		sets[b.Name] = b
		return
	}
	count := b.Count
	to, from := reflect.ValueOf(b).Elem(), reflect.ValueOf(set).Elem()
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	b.Count = count
}

func setStepDefaults(step *Step, timeout time.Duration) {
	if step.Sleep != nil {
		timeout += step.Sleep.For.Duration
	}
	if inner, _ := step.Inner(); len(inner) == 0 && step.Timeout == nil { // the steps of a group have timeouts of their own
		step.Timeout = &metav1.Duration{Duration: timeout}
	}
	if step.Patch != nil {
		def(&step.Patch.Type, patchType(step.Patch.APIVersion))
	}
	if step.Base != nil && step.Base.Add != nil {
		def(&step.Base.Add.BaseName, step.Base.Add.Name)
	}
	if step.Fault != nil && step.Fault.Set != nil {
		SetFaultDefaults(step.Fault.Set.Target, &step.Fault.Set.Fault)
	}
	if step.Controller != nil && step.Controller.Replica == nil {
		first := 1
		step.Controller.Replica = &first
	}
	if step.Traffic != nil && step.Traffic.Start != nil && step.Traffic.Start.Via == ViaBases && len(step.Traffic.Start.Bases) == 0 {
		step.Traffic.Start.Bases = BaseNames{"*"}
	}
}

// patchType is strategic for the kinds that Kubernetes itself has.
func patchType(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err == nil && strings.Contains(gv.Group, ".") && !strings.HasSuffix(gv.Group, ".k8s.io") {
		return "merge"
	}
	return "strategic"
}

// nameSteps gives a name to the steps that have none, unique within the list.
func nameSteps(steps []Step) {
	var names []string
	for _, step := range steps {
		names = append(names, step.Name)
	}
	for i := range steps {
		step := &steps[i]
		if step.Name == "" {
			name := describe(step)
			for n := 2; slices.Contains(names, name); n++ {
				name = fmt.Sprintf("%s (%d)", describe(step), n)
			}
			step.Name = name
			names = append(names, name)
		}
		nameSteps(step.Steps)
		nameSteps(step.Parallel)
	}
}
