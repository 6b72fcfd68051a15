package v1alpha1

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
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

func (v *validator) faultAction(f *FaultAction, at *field.Path) {
	if !v.exactlyOne(f, at, "either sets or clears faults") {
		return
	}
	if f.Clear != nil {
		v.bases(f.Clear.Bases, at.Child("clear", "bases"))
		return
	}
	v.bases(f.Set.Bases, at.Child("set", "bases"))
	v.fault(at.Child("set", "fault"), f.Set.Fault)
}

// fault checks a fault as a base would. One with expressions in it is checked
// when they have values.
func (v *validator) fault(at *field.Path, raw Object) {
	if len(raw) == 0 {
		v.add(field.Required(at, "say at least its kind; see: koupsandbox scenario explain fault"))
		return
	}
	text, err := yaml.Marshal(raw)
	if err != nil {
		v.forbid(at, "cannot be written down: %v", err)
		return
	}
	if HasExpression(string(text)) {
		return
	}
	var f fault.Fault
	_, problems := strictyaml.Decode("", text, &f)
	for _, p := range problems {
		v.forbid(below(at, p.Field), "%s", p.Detail)
	}
	if len(problems) > 0 {
		return
	}
	err = f.Validate()
	for _, err := range parts(err) {
		name, detail, _ := strings.Cut(err.Error(), ": ")
		name, value, _ := strings.Cut(name, " ") // kind "x", count -1
		if value != "" && !strings.HasSuffix(name, ",") {
			v.forbid(below(at, name), "%s %s", value, detail)
			continue
		}
		v.forbid(below(at, strings.TrimSuffix(name, ",")), "%s", detail)
	}
}

func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// below appends a path that is written out.
func below(at *field.Path, path string) *field.Path {
	if path == "" {
		return at
	}
	return at.Child(path)
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
