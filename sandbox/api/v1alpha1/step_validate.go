package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// place is where a list of steps is.
type place int

const (
	inSteps place = iota
	inParallel
	inFinally
)

func (v *validator) steps(steps []Step, at *field.Path, where place) {
	names := map[string]bool{}
	for i := range steps {
		step, at := &steps[i], at.Index(i)
		if names[step.Name] {
			v.add(field.Duplicate(at.Child("name"), step.Name))
		}
		names[step.Name] = true
		v.step(step, at, where)
	}
}

func (v *validator) step(s *Step, at *field.Path, where place) {
	if strings.ContainsAny(s.Name, "\n\r\t") || len(s.Name) > 120 {
		v.invalid(at.Child("name"), s.Name, "must be one line of at most 120 letters")
	}
	switch {
	case s.Background && where == inParallel:
		v.forbid(at.Child("background"), "has no meaning here: the steps of parallel are done at the same time anyway")
	case s.Background && where == inFinally:
		v.forbid(at.Child("background"),
			"has no meaning in finally: nothing comes after it that would wait for the step")
	case s.Background:
		v.waitable = append(v.waitable, s.Name)
	}
	v.invariants(at, s.Always, s.Never)
	if !v.exactlyOne(&s.Action, at, "a step does exactly one thing") {
		return
	}
	kind, value := s.Get()
	if x, ok := value.(validated); ok {
		x.validate(v, s, at.Child(kind))
	}
	if s.DisruptsAll() && v.scenario.Spec.Exclusive != nil && !*v.scenario.Spec.Exclusive {
		v.forbid(at.Child(kind), "disturbs every scenario that runs at the same time: remove exclusive: false")
	}
	v.steps(s.Steps, at.Child("steps"), where)
	v.steps(s.Parallel, at.Child("parallel"), inParallel)
}

// exactlyOne checks that one field of a struct is set.
func (v *validator) exactlyOne(of any, at *field.Path, rule string) bool {
	switch set := given(of); len(set) {
	case 1:
		return true
	case 0:
		v.add(field.Required(at, rule+"; say which: "+strings.Join(fieldsOf(of), ", ")))
	default:
		v.forbid(at, "%s, but has %s", rule, strings.Join(set, " and "))
	}
	return false
}
