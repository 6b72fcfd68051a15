package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The types of the fields of Action are in the files step_NAME.go. Each type implements the interfaces that it needs.
// In their methods, kind is the YAML name of the field and at is its field path.
type (
	// titled is implemented by actions that return a default name for their step. For other actions, the default name
	// is the kind.
	titled interface{ title(kind string) string }
	// defaulted is implemented by actions with defaults that struct tags cannot describe.
	defaulted interface {
		setDefaults(s *Step, spec *ScenarioSpec)
	}
	// collected is implemented by actions that define names to which other steps refer.
	collected interface {
		collect(n *Names, at *field.Path)
	}
	// validated is implemented by actions with validation rules that struct tags cannot describe.
	validated interface {
		validate(v *validator, s *Step, at *field.Path)
	}
	// disruptive is implemented by actions that have effects outside of their run.
	disruptive interface{ disrupts() disruption }
	// referring is implemented by actions that refer to objects. It returns these objects.
	referring interface{ refs() []Ref }
	// changing is implemented by actions that change an object. It returns this object. Types that embed Ref
	// implement it.
	changing interface{ changes() *Ref }
	// timed is implemented by actions whose durations are divided by the speed of the sandbox.
	timed interface{ atSpeed(speed time.Duration) }
)

// disruption describes the effects that a step has outside of its run.
type disruption struct {
	sandbox bool // the step affects all scenarios that run at the same time
	proxy   bool // the step requires the API proxy
}

// Get returns the YAML name and the value of the field that is set. If several fields are set, it returns the first
// one. If no field is set, it returns an empty name.
func (a *Action) Get() (kind string, value any) {
	v := reflect.ValueOf(a).Elem()
	if set := nonZeroFields(a); len(set) > 0 {
		i := slices.Index(fieldsOf(a), set[0])
		return set[0], v.Field(i).Interface()
	}
	return "", nil
}

// Kind returns the YAML name of the field that is set.
func (a *Action) Kind() string {
	kind, _ := a.Get()
	return kind
}

func (a *Action) disruption() (d disruption) {
	if _, value := a.Get(); value != nil {
		if x, ok := value.(disruptive); ok {
			d = x.disrupts()
		}
	}
	return d
}

// DisruptsAll reports whether the step affects all scenarios that run at the same time.
func (a *Action) DisruptsAll() bool { return a.disruption().sandbox }

// Refs returns the objects that the step refers to.
func (a *Action) Refs() []Ref {
	_, value := a.Get()
	if x, ok := value.(referring); ok {
		return x.refs()
	}
	return nil
}

// Changes returns the object that the step changes. It returns nil if the step does not change an object.
func (a *Action) Changes() *Ref {
	_, value := a.Get()
	if x, ok := value.(changing); ok {
		return x.changes()
	}
	return nil
}

// Inner returns the steps that the action groups.
func (a *Action) Inner() []Step {
	if len(a.Parallel) > 0 {
		return a.Parallel
	}
	return a.Steps
}

// nonZeroFields returns the YAML names of the struct fields that are set, in the order of the struct type.
func nonZeroFields(of any) []string {
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

// fieldsOf returns the YAML names of all fields of a struct.
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

// EachStep calls visit for every step of the scenario in the order of the file. It visits a group before the steps of
// the group.
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

// EachCondition calls visit for every field whose whole value is a CEL expression, such as spec.steps[2].assert.cel.
// The text is empty if the field is not set.
func (s *Scenario) EachCondition(visit func(path *field.Path, text string)) {
	walk(reflect.ValueOf(&s.Spec), "", field.NewPath("spec"),
		func(f reflect.Value, tag reflect.StructTag, at *field.Path) {
			if tag.Get("check") == "cel" {
				visit(at, f.String())
			}
		})
}

// DivideTimes divides the durations in steps, such as sleep.for, by the speed of a sandbox. It does not change
// timeouts.
func (s *Scenario) DivideTimes(speed int) {
	s.EachStep(func(_ *field.Path, step *Step) {
		if _, value := step.Get(); value != nil {
			if x, ok := value.(timed); ok {
				x.atSpeed(time.Duration(speed))
			}
		}
	})
}

// Names holds the names that a scenario defines and to which steps refer.
type Names struct {
	// Sets maps the name of each set of bases to the first definition of the set.
	Sets map[string]*BaseSet
	// Streams and Outputs map each stream name and output name to the field that defines it.
	Streams, Outputs map[string]*field.Path
	// Faults holds the fault IDs that the scenario defines.
	Faults map[string]bool

	duplicates field.ErrorList
}

// Names returns the names that the scenario defines.
func (s *Scenario) Names() *Names {
	n := &Names{Sets: map[string]*BaseSet{}, Streams: map[string]*field.Path{}, Outputs: map[string]*field.Path{},
		Faults: map[string]bool{}}
	for i := range s.Spec.Bases {
		set := &s.Spec.Bases[i]
		if n.Sets[set.Name] != nil {
			n.duplicates = append(n.duplicates,
				field.Duplicate(field.NewPath("spec", "bases").Index(i).Child("name"), set.Name))
		}
		n.addSet(set)
	}
	s.EachStep(func(at *field.Path, step *Step) {
		kind, value := step.Get()
		if x, ok := value.(collected); ok {
			x.collect(n, at.Child(kind))
		}
	})
	return n
}

func (n *Names) addSet(set *BaseSet) {
	for _, f := range set.Faults {
		n.Faults[f.ID] = true
	}
	if n.Sets[set.Name] == nil {
		n.Sets[set.Name] = set
	}
}

func (n *Names) unique(names map[string]*field.Path, at *field.Path, name string) {
	if first, twice := names[name]; twice {
		n.duplicates = append(n.duplicates,
			field.Invalid(at, name,
				fmt.Sprintf("is already the name of %s; set a unique name", first)))
		return
	}
	names[name] = at
}

// setStepDefaults sets the step defaults that depend on other fields of the step or on the spec.
func setStepDefaults(step *Step, spec *ScenarioSpec) {
	_, value := step.Get()
	if x, ok := value.(defaulted); ok {
		x.setDefaults(step, spec)
	}
	if step.Timeout == nil && len(step.Inner()) == 0 { // the steps of a group have timeouts of their own
		step.Timeout = &metav1.Duration{Duration: spec.StepTimeout.Duration}
	}
}

// nameSteps gives a name to each step that has none. The names are unique within the list of steps.
func nameSteps(steps []Step) {
	var names []string
	for _, step := range steps {
		names = append(names, step.Name)
	}
	for i := range steps {
		step := &steps[i]
		if step.Name == "" {
			title := defaultName(step)
			step.Name = title
			for n := 2; slices.Contains(names, step.Name); n++ {
				step.Name = fmt.Sprintf("%s (%d)", title, n)
			}
			names = append(names, step.Name)
		}
		nameSteps(step.Steps)
		nameSteps(step.Parallel)
	}
}

func defaultName(step *Step) string {
	kind, value := step.Get()
	if x, ok := value.(titled); ok {
		return x.title(kind)
	}
	return kind
}

// short shortens a text to one line of at most 60 characters.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > 60 {
		return string(letters[:57]) + "..."
	}
	return text
}
