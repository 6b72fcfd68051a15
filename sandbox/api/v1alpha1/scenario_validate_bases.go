package v1alpha1

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *validator) base(b *BaseAction, at *field.Path) {
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
	set := v.sets[b.Name]
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
	known := slices.Sorted(maps.Keys(v.sets))
	if v.sets[set] != nil || HasExpression(name) || slices.ContainsFunc(known, HasExpression) {
		return
	}
	if len(known) == 0 {
		v.invalid(at, name, "the scenario has no bases: define a set in spec.bases")
		return
	}
	v.invalid(at, name, "there is no such set of bases, only %s", strings.Join(known, ", "))
}

func (v *validator) traffic(t *TrafficAction, at *field.Path) {
	if !v.exactlyOne(t, at, "either starts or stops requests") {
		return
	}
	if t.Stop != nil {
		if _, known := v.streams[t.Stop.Name]; !known && !HasExpression(t.Stop.Name) {
			v.invalid(at.Child("stop", "name"), t.Stop.Name, "there is no step that starts it")
		}
		return
	}
	s, at := t.Start, at.Child("start")
	switch s.Via {
	case ViaService:
		if v.need(at.Child("service"), s.Service, "the Service that the requests go to; or set via: bases") && !HasExpression(s.Service) {
			v.reasons(at.Child("service"), s.Service, validation.IsDNS1123Label(s.Service))
		}
		if len(s.Bases) > 0 {
			v.forbid(at.Child("bases"), "is for via: bases only; a Service picks the bases itself")
		}
	case ViaBases:
		if s.Service != "" || s.Port != "" {
			v.forbid(at.Child(given(&Traffic{Service: s.Service, Port: s.Port})[0]), "is for via: service only")
		}
		v.bases(s.Bases, at.Child("bases"))
	}
}

// sorted returns the keys of a map in their order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
