package v1alpha1

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// BaseNames selects bases by name: SET selects all bases of a set, SET-N selects one base, and * selects all bases of
// the run. A step fails if a name selects no base.
type BaseNames []string

// BaseAction changes bases or their Nodes. Exactly one field is set. The step ends when the controller has reported
// the result: Nodes are Ready, or Nodes or Pods are removed.
type BaseAction struct {
	// Add adds Count bases to a set. If no set has this name, Add defines the set.
	Add *BaseSet `json:"add,omitempty" jsonschema:"oneof_required=add"`
	// Remove kills the processes of bases, like kill -9.
	Remove BaseNames `json:"remove,omitempty" jsonschema:"oneof_required=remove"`
	// Restart stops the processes of bases and starts them again.
	Restart *BaseRestart `json:"restart,omitempty" jsonschema:"oneof_required=restart"`
	// Upgrade replaces the bases of a set with bases of another version.
	Upgrade *BaseUpgrade `json:"upgrade,omitempty" jsonschema:"oneof_required=upgrade"`
	// Cordon marks the Nodes of bases as unschedulable, like kubectl cordon.
	Cordon BaseNames `json:"cordon,omitempty" jsonschema:"oneof_required=cordon"`
	// Drain cordons the Nodes of bases and evicts their Pods, except DaemonSet Pods, like kubectl drain. It waits
	// until the evicted Pods no longer exist.
	Drain *BaseDrain `json:"drain,omitempty" jsonschema:"oneof_required=drain"`
	// Uncordon marks the Nodes of bases as schedulable again, after cordon or drain.
	Uncordon BaseNames `json:"uncordon,omitempty" jsonschema:"oneof_required=uncordon"`
}

// BaseDrain drains the Nodes of bases.
type BaseDrain struct {
	// Bases selects the bases whose Nodes are drained.
	Bases BaseNames `json:"bases"`
	// NoWait ends the step as soon as all evictions are accepted. Default: false.
	NoWait bool `json:"noWait,omitempty"`
}

// BaseRestart restarts bases.
type BaseRestart struct {
	// Bases selects the bases to restart.
	Bases BaseNames `json:"bases"`
	// NewIdentity gives each base a new identity, like a new container. Default: false.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// BaseUpgrade replaces the bases of a set with bases of another version, like a release of the base application.
type BaseUpgrade struct {
	// Set is the name of the set of bases.
	Set string `json:"set" need:"set the name of a set of bases"`
	// Version is the version of the new bases.
	Version string `json:"version" need:"set the version of the new bases" check:"nodeLabel"`
	// Batch is the number of bases that are replaced at the same time.
	Batch *int `json:"batch,omitempty" jsonschema:"minimum=1,maximum=10000,default=1"`
	// OldFirst stops the old bases of a batch before the new bases start. Default: false; the new bases start before
	// the old bases stop.
	OldFirst bool `json:"oldFirst,omitempty"`
}

func (b *BaseAction) title(string) string {
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

// inheritSets copies the settings of a set, except for the count, to the unset fields of bases that a step adds to
// the set. The first step that adds bases to an unknown set defines the set.
func inheritSets(s *Scenario) {
	sets := map[string]*BaseSet{}
	for i := range s.Spec.Bases {
		sets[s.Spec.Bases[i].Name] = &s.Spec.Bases[i]
	}
	s.EachStep(func(_ *field.Path, step *Step) {
		if step.Base == nil || step.Base.Add == nil {
			return
		}
		b := step.Base.Add
		def(&b.Name, defaultSet)
		set, defined := sets[b.Name]
		if !defined {
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
	})
}

func (b *BaseAction) setDefaults(*Step, *ScenarioSpec) {
	if b.Add != nil {
		def(&b.Add.BaseName, b.Add.Name)
	}
}

func (b *BaseAction) collect(n *Names, _ *field.Path) {
	if b.Add != nil {
		n.addSet(b.Add)
	}
}

func (b *BaseAction) validate(v *validator, _ *Step, at *field.Path) {
	if !v.exactlyOne(b, at, "base needs exactly one action") {
		return
	}
	switch {
	case b.Add != nil:
		v.added(b.Add, at.Child("add"))
	case len(b.Remove) > 0:
		v.bases(b.Remove, at.Child("remove"))
	case b.Restart != nil:
		v.bases(b.Restart.Bases, at.Child("restart", "bases"))
	case len(b.Cordon) > 0:
		v.bases(b.Cordon, at.Child("cordon"))
	case b.Drain != nil:
		v.bases(b.Drain.Bases, at.Child("drain", "bases"))
	case len(b.Uncordon) > 0:
		v.bases(b.Uncordon, at.Child("uncordon"))
	case b.Upgrade != nil && b.Upgrade.Set != "":
		v.knownSet(b.Upgrade.Set, b.Upgrade.Set, at.Child("upgrade", "set"))
	}
}

// added validates the bases that a step adds. Only the first definition of a set may contain settings.
func (v *validator) added(b *BaseSet, at *field.Path) {
	if b.Count != nil && *b.Count == 0 {
		v.invalid(at.Child("count"), 0, "must be between 1 and %d", MaxBases)
	}
	v.runBaseSet(b, at)
	set := v.names.Sets[b.Name]
	if set == b || set == nil {
		return
	}
	same := *b
	same.Count = set.Count
	if !reflect.DeepEqual(&same, set) {
		v.forbid(at, "the set %s has other settings; set only the count, or use a new name", b.Name)
	}
}

var baseOfSet = regexp.MustCompile(`^(.+)-[1-9][0-9]*$`)

// bases validates base names of the form SET, SET-N or *.
func (v *validator) bases(names BaseNames, at *field.Path) {
	if len(names) == 0 {
		v.add(field.Required(at, "select bases: SET for all bases of a set, SET-N for one base, or * for all"))
	}
	for i, name := range names {
		set := name
		if m := baseOfSet.FindStringSubmatch(name); m != nil {
			set = m[1]
		}
		if name != "*" {
			v.knownSet(set, name, at.Index(i))
		}
	}
}

func (v *validator) knownSet(set, name string, at *field.Path) {
	known := slices.Sorted(maps.Keys(v.names.Sets))
	if v.names.Sets[set] != nil || HasExpression(name) || slices.ContainsFunc(known, HasExpression) {
		return
	}
	if len(known) == 0 {
		v.invalid(at, name, "the scenario has no bases; define a set in spec.bases")
		return
	}
	v.invalid(at, name, "unknown set of bases; sets of the scenario: %s", strings.Join(known, ", "))
}
