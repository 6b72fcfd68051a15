package v1alpha1

import (
	"reflect"
	"strconv"
	"testing"
)

// Each tag says something that the code which reads it knows: a check that there is, a default that
// the field can have, limits that are numbers.
func TestTags(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(of reflect.Type)
	visit = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			if text := schemaTag(f.Tag, "default"); text != nil {
				value := reflect.New(f.Type).Elem()
				setTo(value, text[0])
				v := &validator{}
				v.value(value, f.Tag, nil)
				if len(v.errs) > 0 {
					t.Errorf("%s.%s: the default: %v", of, f.Name, v.errs)
				}
			}
			switch check := f.Tag.Get("check"); {
			case check == "" || check == "cel" || check == "positive" || check == "notNegative":
			case checks[check] == nil:
				t.Errorf("%s.%s: there is no check %s", of, f.Name, check)
			}
			for _, keyword := range []string{"minimum", "maximum"} {
				for _, text := range schemaTag(f.Tag, keyword) {
					if _, err := strconv.ParseInt(text, 10, 64); err != nil {
						t.Errorf("%s.%s: %v", of, f.Name, err)
					}
				}
			}
			visit(f.Type)
		}
	}
	visit(reflect.TypeFor[Sandbox]())
	visit(reflect.TypeFor[Scenario]())
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// What a tag gives as default is right by the other tags.
func TestDefaultsAreValid(t *testing.T) {
	count := 0
	s := &Scenario{Spec: ScenarioSpec{Bases: []BaseSet{{Count: &count}},
		Steps: []Step{{Action: Action{Traffic: &TrafficAction{Start: &Traffic{Module: "m", Service: "s"}}}}}}}
	s.Metadata.Name, s.Spec.Description = "x", "y"
	SetScenarioDefaults(s)
	if errs := ValidateScenario(s); len(errs) > 0 {
		t.Error(errs)
	}
	if *s.Spec.Bases[0].Count != 0 {
		t.Error("a count of 0 has become the default")
	}
}
