package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// stepList identifies the list that contains a step.
type stepList int

const (
	inSteps stepList = iota
	inParallel
	inFinally
)

func (v *validator) steps(steps []Step, at *field.Path, list stepList) {
	names := map[string]bool{}
	for i := range steps {
		step, at := &steps[i], at.Index(i)
		if names[step.Name] {
			v.add(field.Duplicate(at.Child("name"), step.Name))
		}
		names[step.Name] = true
		v.step(step, at, list)
	}
}

func (v *validator) step(s *Step, at *field.Path, list stepList) {
	if strings.ContainsAny(s.Name, "\n\r\t") || len(s.Name) > 120 {
		v.invalid(at.Child("name"), s.Name, "must be one line of at most 120 bytes")
	}
	switch {
	case s.Background && list == inParallel:
		v.forbid(at.Child("background"), "is not supported in parallel, whose steps run concurrently")
	case s.Background && list == inFinally:
		v.forbid(at.Child("background"),
			"is not supported in finally: no later step could wait for this step")
	case s.Background:
		v.waitable = append(v.waitable, s.Name)
	}
	v.invariants(at, s.Always, s.Never)
	if !v.exactlyOne(&s.Action, at, "a step needs exactly one action") {
		return
	}
	kind, value := s.Get()
	if x, ok := value.(validated); ok {
		x.validate(v, s, at.Child(kind))
	}
	if s.DisruptsAll() && v.scenario.Spec.Exclusive != nil && !*v.scenario.Spec.Exclusive {
		v.forbid(at.Child(kind), "affects all scenarios that run at the same time; remove exclusive: false")
	}
	v.steps(s.Steps, at.Child("steps"), list)
	v.steps(s.Parallel, at.Child("parallel"), inParallel)
}

// exactlyOne checks that exactly one field of a struct is set.
func (v *validator) exactlyOne(of any, at *field.Path, rule string) bool {
	switch set := nonZeroFields(of); len(set) {
	case 1:
		return true
	case 0:
		v.add(field.Required(at, rule+"; set one of: "+strings.Join(fieldsOf(of), ", ")))
	default:
		v.forbid(at, "%s, but has %s", rule, strings.Join(set, " and "))
	}
	return false
}
