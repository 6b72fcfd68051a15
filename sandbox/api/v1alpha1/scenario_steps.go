package v1alpha1

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind is the name of the action as in YAML, such as apply; empty when none is set, and the first
// when there are several.
func (a *Action) Kind() string {
	if set := given(a); len(set) > 0 {
		return set[0]
	}
	return ""
}

// DisturbsAll says that it strikes whatever runs in the sandbox at the time.
func (a *Action) DisturbsAll() bool {
	return a.Controller != nil || a.Broker != nil || a.APIServer != nil || a.ControllerManager != nil || a.Scheduler != nil ||
		a.Fault != nil && a.Fault.DisturbsAll() || a.Wait != nil && a.Wait.Quiet != nil
}

// needsProxy reports whether the action needs a proxy between the controllers and the API server.
func (a *Action) needsProxy() bool {
	return a.Fault != nil && a.Fault.Set != nil && a.Fault.Set.Target == TargetAPI || a.Wait != nil && a.Wait.Quiet != nil
}

// Inner are the steps that the action groups, with the name of their field; nil for all others.
func (a *Action) Inner() ([]Step, string) {
	if len(a.Parallel) > 0 {
		return a.Parallel, "parallel"
	}
	return a.Steps, "steps"
}

// given lists the fields of a struct that are set, by their names in YAML, in the order of the
// type.
func given(of any) []string {
	v := reflect.Indirect(reflect.ValueOf(of))
	var names []string
	for i := range v.NumField() {
		if f := v.Field(i); f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 {
			continue
		}
		names = append(names, yamlName(v.Type().Field(i)))
	}
	return names
}

// fieldsOf lists all fields of a struct by their names in YAML.
func fieldsOf(of any) []string {
	t := reflect.Indirect(reflect.ValueOf(of)).Type()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = yamlName(t.Field(i))
	}
	return names
}

func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// EachStep calls visit for every step of the scenario, groups before the steps in them, in the
// order of the file.
func (s *Scenario) EachStep(visit func(path *field.Path, step *Step)) {
	spec := field.NewPath("spec")
	eachStep(s.Spec.Steps, spec.Child("steps"), visit)
	eachStep(s.Spec.Finally, spec.Child("finally"), visit)
}

func eachStep(steps []Step, at *field.Path, visit func(*field.Path, *Step)) {
	for i := range steps {
		step := &steps[i]
		visit(at.Index(i), step)
		eachStep(step.Steps, at.Index(i).Child("steps"), visit)
		eachStep(step.Parallel, at.Index(i).Child("parallel"), visit)
	}
}

// EachCondition calls visit for every field that is a CEL expression as a whole, such as
// spec.steps[2].assert.cel, whether it is given or not.
func (s *Scenario) EachCondition(visit func(path *field.Path, text string)) {
	walk(reflect.ValueOf(&s.Spec), "", field.NewPath("spec"), func(f reflect.Value, tag reflect.StructTag, at *field.Path) {
		if tag.Get("check") == "cel" {
			visit(at, f.String())
		}
	})
}

// describe says in a few words what a step does: its default name.
func describe(s *Step) string {
	a := &s.Action
	switch {
	case a.Apply != nil && a.Apply.File != "":
		return "apply " + path.Base(a.Apply.File)
	case a.Apply != nil:
		return "apply " + a.Apply.Resource.title()
	case a.Patch != nil:
		return "patch " + a.Patch.title()
	case a.Delete != nil:
		return "delete " + a.Delete.title()
	case a.Scale != nil:
		return fmt.Sprintf("scale %s to %v", a.Scale.title(), a.Scale.Replicas)
	case a.Rollback != nil:
		return "rollback " + a.Rollback.title()
	case a.Base != nil:
		return a.Base.title()
	case a.Fault != nil && len(given(a.Fault)) > 0:
		return a.Fault.title()
	case a.Controller != nil:
		return a.Controller.Do + " controller"
	case a.Broker != nil:
		return a.Broker.Do + " broker"
	case a.APIServer != nil:
		return a.APIServer.Do + " apiserver"
	case a.ControllerManager != nil:
		return a.ControllerManager.Do + " controllerManager"
	case a.Scheduler != nil:
		return a.Scheduler.Do + " scheduler"
	case a.Traffic != nil && a.Traffic.Start != nil:
		return "start " + a.Traffic.Start.Name
	case a.Traffic != nil && a.Traffic.Stop != nil:
		return "stop " + a.Traffic.Stop.Name
	case a.Wait != nil:
		return a.Wait.title()
	case a.Assert != nil && a.Assert.CEL != "":
		return "assert " + short(a.Assert.CEL)
	case a.Assert != nil && a.Assert.Absent:
		return "assert no " + a.Assert.Resource.title()
	case a.Assert != nil:
		return "assert " + a.Assert.Resource.title()
	case a.Sleep != nil:
		return "sleep " + a.Sleep.For.Duration.String()
	}
	return s.Kind()
}

func (r *Ref) title() string {
	if r.Name != "" || len(r.Labels) == 0 {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "s"
}

func (o Object) title() string {
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	if name, ok := metadata["name"].(string); ok {
		return kind + "/" + name
	}
	return kind
}

func (b *BaseAction) title() string {
	switch {
	case b.Add != nil:
		return "add bases to " + b.Add.Name
	case len(b.Remove) > 0:
		return "remove " + strings.Join(b.Remove, ", ")
	case b.Restart != nil:
		return "restart " + strings.Join(b.Restart.Bases, ", ")
	case b.Upgrade != nil:
		return fmt.Sprintf("upgrade %s to %s", b.Upgrade.Set, b.Upgrade.Version)
	case len(b.Cordon) > 0:
		return "cordon " + strings.Join(b.Cordon, ", ")
	case b.Drain != nil:
		return "drain " + strings.Join(b.Drain.Bases, ", ")
	case len(b.Uncordon) > 0:
		return "uncordon " + strings.Join(b.Uncordon, ", ")
	}
	return "base"
}

func (f *FaultAction) title() string {
	if s := f.Set; s != nil {
		on := strings.Join(s.Bases, ", ")
		if s.Target != TargetBase {
			on = strings.TrimSpace(string(s.Target) + " " + on)
		}
		return fmt.Sprintf("set fault %s on %s", s.Fault.Kind, on)
	}
	s := f.Clear
	if s == nil {
		s = f.Await
	}
	text := f.verb() + " faults " + strings.Join(s.IDs, ", ")
	if len(s.Bases) > 0 {
		text = strings.TrimSpace(text) + " of " + strings.Join(s.Bases, ", ")
	}
	return strings.TrimSpace(text)
}

func (w *Wait) title() string {
	switch {
	case w.Rollout != nil:
		return "wait for rollout of " + w.Rollout.title()
	case w.Ready != nil:
		return "wait until " + w.Ready.title() + " is ready"
	case w.Gone != nil:
		return "wait until " + w.Gone.title() + " is gone"
	case w.Quiet != nil:
		return "wait until controllers write nothing for " + w.Quiet.Duration.String()
	case w.Step != "":
		return "wait for step " + w.Step
	}
	return "wait"
}

// short cuts a text to what fits into a line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > 60 {
		return string(letters[:57]) + "..."
	}
	return text
}
