package v1alpha1

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// MaxCells is the most runs that a matrix makes: beyond it lies a mistake.
	MaxCells = 200
	// maxSetName leaves room in the host name of a base, RUN-SET-N, which is a label
	// of its Node.
	maxSetName = 20
	// maxControllers is the most controllers that share the bases of one sandbox: each
	// is a process, and watches all Pods anew.
	maxControllers = 9
	// maxRate is what the generator of requests is built and measured for.
	maxRate = 5000
)

// ValidateScenario reports every problem of a scenario that has its defaults,
// each with its field path; an empty list means that it can be run. Expressions
// are not looked into: a string that still has one is taken as right.
func ValidateScenario(s *Scenario) field.ErrorList {
	v := &validator{scenario: s, sets: map[string]*BaseSet{}, streams: map[string]string{}, outputs: map[string]string{}}
	if s.APIVersion != APIVersion {
		v.add(field.NotSupported(field.NewPath("apiVersion"), s.APIVersion, []string{APIVersion}))
	}
	if s.Kind != ScenarioKind {
		v.add(field.NotSupported(field.NewPath("kind"), s.Kind, []string{ScenarioKind}))
	}
	metadata := field.NewPath("metadata")
	v.label(metadata.Child("name"), s.Metadata.Name, validation.DNS1123LabelMaxLength)
	for _, key := range slices.Sorted(maps.Keys(s.Metadata.Labels)) {
		path := metadata.Child("labels").Key(key)
		v.reasons(path, key, validation.IsQualifiedName(key))
		v.reasons(path, s.Metadata.Labels[key], validation.IsValidLabelValue(s.Metadata.Labels[key]))
	}
	v.spec(&s.Spec, field.NewPath("spec"))
	return v.errs
}

// validator gathers problems, and the names that things have.
type validator struct {
	scenario *Scenario
	errs     field.ErrorList
	sets     map[string]*BaseSet
	streams  map[string]string // where each name was given first
	outputs  map[string]string
	waitable []string // background steps so far
}

func (v *validator) add(e *field.Error) { v.errs = append(v.errs, e) }

func (v *validator) invalid(path *field.Path, value any, format string, args ...any) {
	v.add(field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// forbid is for what cannot stand where it does, whatever its value.
func (v *validator) forbid(path *field.Path, format string, args ...any) {
	v.add(field.Forbidden(path, fmt.Sprintf(format, args...)))
}

// need reports an empty string.
func (v *validator) need(path *field.Path, value, what string) bool {
	if strings.TrimSpace(value) == "" {
		v.add(field.Required(path, what))
		return false
	}
	return true
}

// reasons reports a value with what is wrong with it.
func (v *validator) reasons(path *field.Path, value string, reasons []string) {
	if len(reasons) > 0 && !HasExpression(value) {
		v.invalid(path, value, "%s", strings.Join(reasons, "; "))
	}
}

// label checks a DNS label of at most so many letters.
func (v *validator) label(path *field.Path, name string, most int) {
	if name == "" {
		v.add(field.Required(path, "give it a name"))
		return
	}
	if !HasExpression(name) && (len(validation.IsDNS1123Label(name)) > 0 || len(name) > most) {
		v.invalid(path, name, "must be a DNS label: at most %d lower-case letters, digits and hyphens, with a letter or digit at both ends", most)
	}
}

// nodeLabel checks what becomes the value of a label of Nodes.
func (v *validator) nodeLabel(path *field.Path, value string) {
	if !HasExpression(value) {
		v.errs = append(v.errs, label(path, value)...)
	}
}

func oneOf[T ~string](v *validator, path *field.Path, value T, choices ...T) {
	if !slices.Contains(choices, value) && !HasExpression(string(value)) {
		v.add(field.NotSupported(path, value, choices))
	}
}

func (v *validator) atLeast(path *field.Path, n *int, least, most int) {
	if n != nil && (*n < least || *n > most) {
		v.invalid(path, *n, "must be between %d and %d", least, most)
	}
}

func (v *validator) positive(path *field.Path, d *metav1.Duration) {
	if d != nil && d.Duration <= 0 {
		v.invalid(path, d.Duration.String(), "must be longer than 0s")
	}
}

func (v *validator) notNegative(path *field.Path, d *metav1.Duration) {
	if d != nil && d.Duration < 0 {
		v.invalid(path, d.Duration.String(), "must not be negative")
	}
}

// identifier is a name that expressions can write behind a dot.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) identifier(path *field.Path, name string) {
	if !identifier.MatchString(name) && !HasExpression(name) {
		v.invalid(path, name, "must be letters, digits and _, and not begin with a digit: expressions name it")
	}
}

func (v *validator) spec(s *ScenarioSpec, path *field.Path) {
	v.need(path.Child("description"), s.Description, "say in a sentence what the scenario shows")
	for _, name := range slices.Sorted(maps.Keys(s.Vars)) {
		v.identifier(path.Child("vars", name), name)
	}
	v.matrix(s, path.Child("matrix"))
	for i := range s.Bases {
		set, at := &s.Bases[i], path.Child("bases").Index(i)
		if _, twice := v.sets[set.Name]; twice {
			v.add(field.Duplicate(at.Child("name"), set.Name))
		}
		v.sets[set.Name] = set
		v.baseSet(set, at, 0)
	}
	v.addedSets()
	if s.Controller != nil {
		at := path.Child("controller")
		v.atLeast(at.Child("replicas"), s.Controller.Replicas, 1, maxControllers)
		for _, name := range sorted(s.Controller.Env) {
			at := at.Child("env").Key(name)
			switch {
			case !variableName.MatchString(name):
				v.invalid(at, name, "is not the name of an environment variable")
			case slices.Contains(ownVariables, name):
				v.forbid(at, "is set by the sandbox itself: remove it")
			}
		}
	}
	v.positive(path.Child("timeout"), s.Timeout)
	v.positive(path.Child("stepTimeout"), s.StepTimeout)
	for _, check := range s.Checks.all() {
		oneOf(v, path.Child("checks", check.name), *check.expect, Holds, Violated, Ignored)
	}
	v.atLeast(path.Child("checks", "maxPodWrites"), s.Checks.MaxPodWrites, 1, 1_000_000)
	v.invariants(path, s.Always, s.Never)
	if len(s.Steps) == 0 {
		v.add(field.Required(path.Child("steps"), "a scenario has at least one step"))
	}
	v.collect(s.Steps, path.Child("steps"))
	v.collect(s.Finally, path.Child("finally"))
	v.steps(s.Steps, path.Child("steps"), inSteps)
	v.steps(s.Finally, path.Child("finally"), inFinally)
}

// addedSets notes the sets that steps define.
func (v *validator) addedSets() {
	v.scenario.EachStep(func(_ *field.Path, step *Step) {
		if step.Base != nil && step.Base.Add != nil && v.sets[step.Base.Add.Name] == nil {
			v.sets[step.Base.Add.Name] = step.Base.Add
		}
	})
}

func (v *validator) matrix(s *ScenarioSpec, path *field.Path) {
	cells := 1
	for _, name := range slices.Sorted(maps.Keys(s.Matrix)) {
		v.identifier(path.Key(name), name)
		values := s.Matrix[name]
		if len(values) == 0 {
			v.add(field.Required(path.Key(name), "give at least one value; without any there is no run"))
		}
		for i, value := range values {
			if slices.ContainsFunc(values[:i], func(other Any) bool { return fmt.Sprint(other) == fmt.Sprint(value) }) {
				v.add(field.Duplicate(path.Key(name).Index(i), value))
			}
		}
		cells *= max(1, len(values))
		if cells > MaxCells {
			v.invalid(path, cells, "makes more than %d runs: split the scenario", MaxCells)
			return
		}
	}
}

var numbered = regexp.MustCompile(`-[0-9]+$`)

func (v *validator) baseSet(b *BaseSet, path *field.Path, least int) {
	v.label(path.Child("name"), b.Name, maxSetName)
	if numbered.MatchString(b.Name) {
		v.invalid(path.Child("name"), b.Name, "must not end with a number: %s is the name of a base", b.Name)
	}
	v.atLeast(path.Child("count"), b.Count, least, MaxBases)
	if b.BaseName != b.Name { // the default's problem is told once, at the name
		v.nodeLabel(path.Child("baseName"), b.BaseName)
	}
	v.nodeLabel(path.Child("version"), b.Version)
	v.nodeLabel(path.Child("env"), b.Env)
	oneOf(v, path.Child("tunnel"), b.Tunnel, TunnelMQTT, TunnelHTTP)
	if b.Runtime != "" {
		oneOf(v, path.Child("runtime"), b.Runtime, RuntimeProcess, RuntimeContainer)
	}
	oneOf(v, path.Child("activation"), b.Activation, ActivationNewModule, ActivationDefault, ActivationMulti)
	for name, d := range map[string]*metav1.Duration{"installTime": b.InstallTime, "uninstallTime": b.UninstallTime, "pullTime": b.PullTime,
		"requestTime": b.RequestTime, "startupTime": b.StartupTime} {
		v.notNegative(path.Child(name), d)
	}
	v.quantity(path.Child("metaspace"), b.Metaspace)
	v.quantity(path.Child("perModule"), b.PerModule)
	for i, module := range b.Modules {
		v.jar(path.Child("modules").Index(i), module)
	}
	for i, fault := range b.Faults {
		v.fault(path.Child("faults").Index(i), fault)
	}
}

func (v *validator) quantity(path *field.Path, text string) {
	if text == "" || HasExpression(text) {
		return
	}
	if q, err := resource.ParseQuantity(text); err != nil || q.Sign() <= 0 {
		v.invalid(path, text, "must be a size such as 256Mi")
	}
}

func (v *validator) jar(path *field.Path, text string) {
	if HasExpression(text) {
		return
	}
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"file", "http", "https"}, u.Scheme) || !strings.Contains(text, ".jar") {
		v.invalid(path, text, "must be the file, http or https URL of a jar, such as https://modules.example/biz1-1.0.0-ark-biz.jar")
	}
}

func (v *validator) invariants(path *field.Path, always, never []Invariant) {
	names := map[string]bool{}
	for _, list := range []struct {
		name       string
		invariants []Invariant
	}{{"always", always}, {"never", never}} {
		for i, invariant := range list.invariants {
			at := path.Child(list.name).Index(i)
			if v.need(at.Child("name"), invariant.Name, "messages name the invariant") && names[invariant.Name] {
				v.add(field.Duplicate(at.Child("name"), invariant.Name))
			}
			names[invariant.Name] = true
			v.expression(at.Child("cel"), invariant.CEL, "say what must hold, in CEL")
		}
	}
}

// expression checks a field that is CEL as a whole.
func (v *validator) expression(path *field.Path, text, need string) {
	if !v.need(path, text, need) {
		return
	}
	if HasExpression(text) {
		v.forbid(path, "is an expression as a whole: write vars.NAME without ${{ }}")
	}
}
