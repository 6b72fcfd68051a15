package v1alpha1

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// place is where a list of steps stands.
type place int

const (
	inSteps place = iota
	inParallel
	inFinally
)

// collect notes the names that steps refer to: streams, outputs, faults, and sets that steps define.
func (v *validator) collect(at *field.Path, step *Step) {
	if step.Traffic != nil && step.Traffic.Start != nil {
		v.unique(v.streams, at.Child("traffic", "start", "name"), step.Traffic.Start.Name)
	}
	if step.Script != nil && step.Script.Output != "" {
		v.unique(v.outputs, at.Child("script", "output"), step.Script.Output)
	}
	if step.Fault != nil && step.Fault.Set != nil {
		v.faults[step.Fault.Set.Fault.ID] = true
	}
	if step.Base != nil && step.Base.Add != nil {
		v.noteFaults(step.Base.Add)
		if v.sets[step.Base.Add.Name] == nil {
			v.sets[step.Base.Add.Name] = step.Base.Add
		}
	}
}

// noteFaults notes the ids of the faults that bases start with.
func (v *validator) noteFaults(set *BaseSet) {
	for _, f := range set.Faults {
		v.faults[f.ID] = true
	}
}

func (v *validator) unique(names map[string]string, at *field.Path, name string) {
	if first, twice := names[name]; twice {
		v.invalid(at, name, "is the name of another one too, %s: give it a name of its own", first)
		return
	}
	names[name] = at.String()
}

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
		v.forbid(at.Child("background"), "has no meaning in finally: nothing comes after it that would wait for the step")
	case s.Background:
		v.waitable = append(v.waitable, s.Name)
	}
	v.invariants(at, s.Always, s.Never)
	if !v.exactlyOne(&s.Action, at, "a step does exactly one thing") {
		return
	}
	v.action(&s.Action, at, s)
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

func (v *validator) action(a *Action, at *field.Path, s *Step) {
	at = at.Child(a.Kind())
	switch {
	case a.Apply != nil:
		v.apply(a.Apply, at)
	case a.Patch != nil:
		v.patch(a.Patch, at)
	case a.Delete != nil:
		v.ref(&a.Delete.Ref, at, severalObjects)
	case a.Scale != nil:
		v.ref(&a.Scale.Ref, at, oneObject)
		v.replicas(a.Scale.Replicas, at.Child("replicas"))
	case a.Rollback != nil:
		v.ref(&a.Rollback.Ref, at, oneObject)
		v.workload(&a.Rollback.Ref, at)
	case a.Base != nil:
		v.base(a.Base, at)
	case a.Fault != nil:
		v.faultAction(a.Fault, at)
	case a.Controller != nil:
		v.replica(a.Controller.Replica, at)
	case a.Broker != nil:
		v.lone(a.Broker, at)
	case a.APIServer != nil:
		v.lone(a.APIServer, at)
	case a.ControllerManager != nil:
		v.lone(a.ControllerManager, at)
	case a.Scheduler != nil:
		v.lone(a.Scheduler, at)
	case a.Traffic != nil:
		v.traffic(a.Traffic, at)
	case a.Wait != nil:
		v.wait(a.Wait, at)
	case a.Assert != nil:
		v.assert(a.Assert, at, s)
	case a.Sleep != nil:
		if d := a.Sleep.For.Duration; s.Timeout != nil && s.Timeout.Duration < d {
			v.invalid(at.Child("for"), d.String(), "is longer than the timeout of the step, %s", s.Timeout.Duration)
		}
	}
	if a.DisturbsAll() && v.scenario.Spec.Exclusive != nil && !*v.scenario.Spec.Exclusive {
		v.forbid(at, "disturbs every scenario that runs at the same time: remove exclusive: false")
	}
}

func (v *validator) apply(a *Apply, at *field.Path) {
	switch {
	case (a.File == "") == (len(a.Resource) == 0):
		v.forbid(at, "takes either a file or a resource")
	case a.File != "" && path.IsAbs(a.File):
		v.invalid(at.Child("file"), a.File, "must be relative to the scenario, so that it is found on every machine")
	case a.File == "":
		v.errs = append(v.errs, ObjectProblems(a.Resource, at.Child("resource"))...)
		if len(a.Vars) > 0 {
			v.forbid(at.Child("vars"), "is for a file only: a resource can use spec.vars")
		}
	}
}

// EachObject visits an object, or the items of a List, with their field paths.
func EachObject(o map[string]any, at *field.Path, visit func(o map[string]any, at *field.Path)) {
	items, isList := o["items"].([]any)
	if !isList {
		visit(o, at)
	}
	for i, item := range items {
		object, _ := item.(map[string]any)
		EachObject(object, at.Child("items").Index(i), visit)
	}
}

// ObjectProblems returns the problems of objects that have no type or no name. An object may be a List of objects.
func ObjectProblems(o Object, at *field.Path) (errs field.ErrorList) {
	EachObject(o.Unstructured().Object, at, func(o map[string]any, at *field.Path) {
		errs = append(errs, typeProblems(o, at)...)
		metadata, _ := o["metadata"].(map[string]any)
		if name := metadata["name"]; name != nil && name != "" { // a wrong type of the name is reported elsewhere
			return
		}
		detail := "give the object a name"
		if metadata["generateName"] != nil {
			detail = "give the object a fixed name, which is unique in the namespace of the run: generateName is not supported, because steps refer to objects by name"
		}
		errs = append(errs, field.Required(at.Child("metadata", "name"), detail))
	})
	return errs
}

func typeProblems(o map[string]any, at *field.Path) (errs field.ErrorList) {
	for _, name := range []string{"apiVersion", "kind"} {
		if text, _ := o[name].(string); text == "" {
			errs = append(errs, field.Required(at.Child(name), "say which kind of object it is"))
		}
	}
	return errs
}

// part checks that a part of an object says which one is meant.
func (v *validator) part(o Object, at *field.Path) {
	v.errs = append(v.errs, typeProblems(o.Unstructured().Object, at)...)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	labels, _ := metadata["labels"].(map[string]any)
	if name == "" && len(labels) == 0 && !unevaluated(o["metadata"]) {
		v.add(field.Required(at.Child("metadata"), "say which object, by name or by labels"))
	}
}

// unevaluated tells whether a value is an expression that is not evaluated yet.
func unevaluated(value any) bool {
	text, ok := value.(string)
	return ok && HasExpression(text)
}

func (v *validator) patch(p *Patch, at *field.Path) {
	v.ref(&p.Ref, at, oneObject)
	_, isList := p.Patch.([]any)
	_, isObject := p.Patch.(map[string]any)
	switch {
	case unevaluated(p.Patch):
	case p.Patch == nil:
		v.add(field.Required(at.Child("patch"), "say what to change"))
	case p.Type == "json" && !isList:
		v.forbid(at.Child("patch"), "of the type json is a list of operations")
	case p.Type != "json" && !isObject:
		v.forbid(at.Child("patch"), "of the type %s is a part of the object; a list of operations has the type json", p.Type)
	}
}

// how many objects a Ref may name.
const (
	oneObject      = false
	severalObjects = true
)

func (v *validator) ref(r *Ref, at *field.Path, several bool) {
	switch {
	case several && (r.Name == "") == (len(r.Labels) == 0):
		v.forbid(at, "takes either a name or labels")
	case !several && len(r.Labels) > 0:
		v.forbid(at.Child("labels"), "may stand for several objects: give the name of one")
	case !several:
		v.need(at.Child("name"), r.Name, "say which object")
	}
	for _, key := range sorted(r.Labels) {
		v.check(at.Child("labels").Key(key), r.Labels[key], "labelValue")
	}
}

// workload checks that a Ref is about what has revisions.
func (v *validator) workload(r *Ref, at *field.Path) {
	if kinds := []string{"Deployment", "DaemonSet", "StatefulSet"}; r.Kind != "" && !HasExpression(r.Kind) && !slices.Contains(kinds, r.Kind) {
		v.add(field.NotSupported(at.Child("kind"), r.Kind, kinds))
	}
}

func (v *validator) replicas(n Any, at *field.Path) {
	switch n := n.(type) {
	case nil:
		v.add(field.Required(at, "say how many there are to be"))
	case int64:
		if n < 0 {
			v.invalid(at, n, "must not be negative")
		}
	default:
		if f, isFloat := n.(float64); isFloat && f >= 0 && f == float64(int64(f)) {
			return
		}
		if !unevaluated(n) {
			v.invalid(at, n, "must be a whole number")
		}
	}
}

// lone is a component that there is one of.
func (v *validator) lone(c *ComponentAction, at *field.Path) {
	if c.Replica != nil {
		v.forbid(at.Child("replica"), "is for the controller only")
	}
}

func (v *validator) wait(w *Wait, at *field.Path) {
	if !v.exactlyOne(w, at, "waits for exactly one thing") {
		return
	}
	switch {
	case w.Rollout != nil:
		v.ref(w.Rollout, at.Child("rollout"), severalObjects)
		v.workload(w.Rollout, at.Child("rollout"))
	case w.Ready != nil:
		v.ref(w.Ready, at.Child("ready"), severalObjects)
	case w.Gone != nil:
		v.ref(w.Gone, at.Child("gone"), severalObjects)
	case w.Step != "" && !slices.Contains(v.waitable, w.Step) && !HasExpression(w.Step):
		v.invalid(at.Child("step"), w.Step, "is not the name of an earlier step with background: true")
	}
}

func (v *validator) assert(a *Assert, at *field.Path, s *Step) {
	if (len(a.Resource) == 0) == (strings.TrimSpace(a.CEL) == "") {
		v.forbid(at, "takes either a resource or cel")
		return
	}
	if a.CEL != "" {
		if a.Absent {
			v.forbid(at.Child("absent"), "is for a resource only: in cel write what must not be")
		}
	} else {
		v.part(a.Resource, at.Child("resource"))
	}
	if a.For != nil && s.Timeout != nil && a.For.Duration > 0 && a.For.Duration >= s.Timeout.Duration {
		v.invalid(at.Child("for"), a.For.Duration.String(), "must be shorter than the timeout of the step, %s", s.Timeout.Duration)
	}
}
