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

// BaseNames names bases: SET for all of a set, SET-N for one, * for all of the run. One that
// matches nothing fails the step.
type BaseNames []string

// BaseAction does something to bases: exactly one field is set. It ends when the controller shows
// the result: Nodes are Ready, or gone, or their Pods are.
type BaseAction struct {
	// Add adds Count bases to a set, with the settings of the set of that name; a new set may be
	// defined here.
	Add *BaseSet `json:"add,omitempty" jsonschema:"oneof_required=add"`
	// Remove ends bases as kill -9 would.
	Remove BaseNames `json:"remove,omitempty" jsonschema:"oneof_required=remove"`
	// Restart ends the processes of bases and starts them again.
	Restart *BaseRestart `json:"restart,omitempty" jsonschema:"oneof_required=restart"`
	// Upgrade replaces a set by bases of another version.
	Upgrade *BaseUpgrade `json:"upgrade,omitempty" jsonschema:"oneof_required=upgrade"`
	// Cordon keeps new Pods off the Nodes of bases, as kubectl cordon does.
	Cordon BaseNames `json:"cordon,omitempty" jsonschema:"oneof_required=cordon"`
	// Drain cordons the Nodes of bases and evicts their Pods, but those of DaemonSets, as kubectl drain
	// does, and waits until these are gone.
	Drain *BaseDrain `json:"drain,omitempty" jsonschema:"oneof_required=drain"`
	// Uncordon ends what cordon and drain began.
	Uncordon BaseNames `json:"uncordon,omitempty" jsonschema:"oneof_required=uncordon"`
}

// BaseDrain drains the Nodes of bases.
type BaseDrain struct {
	// Bases whose Nodes are drained.
	Bases BaseNames `json:"bases"`
	// NoWait ends the step when all evictions are accepted. Default: false.
	NoWait bool `json:"noWait,omitempty"`
}

// BaseRestart restarts bases.
type BaseRestart struct {
	// Bases to restart.
	Bases BaseNames `json:"bases"`
	// NewIdentity gives each a new identity, as a new container has. Default: false.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// BaseUpgrade replaces bases by ones of another version: the release of a base.
type BaseUpgrade struct {
	// Set to upgrade.
	Set string `json:"set" need:"say which set of bases"`
	// Version of the new bases.
	Version string `json:"version" need:"say the version of the new bases" check:"nodeLabel"`
	// Batch is how many are replaced at a time.
	Batch *int `json:"batch,omitempty" jsonschema:"minimum=1,maximum=10000,default=1"`
	// OldFirst ends old bases before new ones start. Default: false, new ones first.
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

// inheritSets gives the bases that steps add the settings of their set that they do not set themselves, except for the
// count. The first step that adds to a new set defines it.
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
	if !v.exactlyOne(b, at, "does exactly one thing to bases") {
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

// added checks bases that a step adds. Only the first definition of a set has settings.
func (v *validator) added(b *BaseSet, at *field.Path) {
	if b.Count != nil && *b.Count == 0 {
		v.invalid(at.Child("count"), 0, "must be between 1 and %d", MaxBases)
	}
	v.baseSet(b, at)
	set := v.names.Sets[b.Name]
	if set == b || set == nil {
		return
	}
	same := *b
	same.Count = set.Count
	if !reflect.DeepEqual(&same, set) {
		v.forbid(at, "the set %s has other settings: give a count only, or define a new set by another name", b.Name)
	}
}

var baseOfSet = regexp.MustCompile(`^(.+)-[1-9][0-9]*$`)

// bases checks names of bases: SET, SET-N or *.
func (v *validator) bases(names BaseNames, at *field.Path) {
	if len(names) == 0 {
		v.add(field.Required(at, "say which bases: SET for all of a set, SET-N for one, or *"))
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
		v.invalid(at, name, "the scenario has no bases: define a set in spec.bases")
		return
	}
	v.invalid(at, name, "there is no such set of bases, only %s", strings.Join(known, ", "))
}
