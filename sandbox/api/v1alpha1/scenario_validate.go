package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/controller/labels"
)

const (
	// MaxCells is the maximum number of runs that a matrix may produce. A larger matrix is probably a mistake.
	MaxCells = 200
	// maxSetName is the maximum length of a set name. It limits the length of the host name of a base, RUN-SET-N,
	// because the host name is a label value of the Node.
	maxSetName = 20
)

// ValidateScenario returns every problem of a scenario, each with its field path. Call it after SetScenarioDefaults.
// An empty list means that the scenario is valid. A string that contains an expression is accepted.
func ValidateScenario(s *Scenario) field.ErrorList {
	v := &validator{scenario: s, names: s.Names()}
	v.head(&s.TypeMeta, ScenarioKind, s)
	for _, key := range sorted(s.Metadata.Labels) {
		path := field.NewPath("metadata", "labels").Key(key)
		v.reasons(path, key, validation.IsQualifiedName(key))
		v.check(path, s.Metadata.Labels[key], "labelValue")
	}
	v.spec(&s.Spec, field.NewPath("spec"))
	return v.errs
}

// reasons reports an invalid value with the reasons that package validation returns.
func (v *validator) reasons(path *field.Path, value string, reasons []string) {
	if len(reasons) > 0 && !HasExpression(value) {
		v.invalid(path, value, "%s", strings.Join(reasons, "; "))
	}
}

func (v *validator) spec(s *ScenarioSpec, path *field.Path) {
	v.matrix(s, path.Child("matrix"))
	for i := range s.Bases {
		v.runBaseSet(&s.Bases[i], path.Child("bases").Index(i))
	}
	v.errs = append(v.errs, v.names.duplicates...)
	if s.Controller != nil {
		v.ownVariables(s.Controller.Env, path.Child("controller", "env"))
	}
	v.invariants(path, s.Always, s.Never)
	v.steps(s.Steps, path.Child("steps"), inSteps)
	v.steps(s.Finally, path.Child("finally"), inFinally)
}

// runBaseSet validates a set of bases of a run.
func (v *validator) runBaseSet(b *BaseSet, path *field.Path) {
	v.baseSet(b, path)
	if b.ClusterName != "" {
		v.forbid(path.Child("clusterName"), "bases of a run report its namespace, and apply replaces the cluster name "+
			"in node selectors and affinities; remove this field")
	}
}

func (v *validator) matrix(s *ScenarioSpec, path *field.Path) {
	cells := 1
	for _, name := range sorted(s.Matrix) {
		values := s.Matrix[name]
		if len(values) == 0 {
			v.add(field.Required(path.Key(name), "set at least one value; a matrix without values has no runs"))
		}
		for i, value := range values {
			if slices.ContainsFunc(values[:i], func(other Any) bool { return fmt.Sprint(other) == fmt.Sprint(value) }) {
				v.add(field.Duplicate(path.Key(name).Index(i), value))
			}
		}
		cells *= max(1, len(values))
		if cells > MaxCells {
			v.invalid(path, cells, "results in more than %d runs; split the scenario", MaxCells)
			return
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (v *validator) baseSet(b *BaseSet, path *field.Path) {
	if b.BaseName != b.Name { // a problem of the default is reported at the name
		v.check(path.Child("baseName"), b.BaseName, "nodeLabel")
	}
	for _, name := range sorted(b.Labels) {
		if problem := CheckBaseLabel(name, b.Labels[name]); problem != "" && !v.open(b.Labels[name]) {
			v.invalid(path.Child("labels").Key(name), b.Labels[name], "%s", problem)
		}
	}
	for i := range b.Faults {
		v.fault(TargetBase, &b.Faults[i], path.Child("faults").Index(i))
	}
}

// CheckBaseLabel returns the problem of a label that a base brings to its Node, or an empty string.
func CheckBaseLabel(name, value string) string {
	switch {
	case len(validation.IsQualifiedName(name)) > 0:
		return "is not a valid label name"
	case !labels.Reportable(name):
		return "the controller does not accept this label from a base; use a label outside kubernetes.io, k8s.io and " +
			"koupleless.io"
	case len(validation.IsValidLabelValue(value)) > 0:
		return "is not a valid label value; " + LabelValue
	}
	return ""
}

func (v *validator) invariants(path *field.Path, always, never []Invariant) {
	names := map[string]bool{}
	each := func(path *field.Path, invariants []Invariant) {
		for i, invariant := range invariants {
			if invariant.Name != "" && names[invariant.Name] {
				v.add(field.Duplicate(path.Index(i).Child("name"), invariant.Name))
			}
			names[invariant.Name] = true
		}
	}
	each(path.Child("always"), always)
	each(path.Child("never"), never)
}
