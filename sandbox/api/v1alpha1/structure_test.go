package v1alpha1

import (
	"reflect"
	"strconv"
	"testing"
)

// TestTags checks that each struct tag is valid: the named check exists, the default value has the type of the field,
// and limits are numbers.
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
					t.Errorf("%s.%s: invalid default: %v", of, f.Name, v.errs)
				}
			}
			switch check := f.Tag.Get("check"); {
			case check == "" || check == "cel" || check == "positive" || check == "notNegative":
			case checks[check] == nil:
				t.Errorf("%s.%s: unknown check %s", of, f.Name, check)
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
		t.Errorf("visited only %d types", len(seen))
	}
}

// TestDefaultsAreValid checks that the default in each tag satisfies the other rules in the tag.
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
		t.Error("the default replaced a count of 0")
	}
}
