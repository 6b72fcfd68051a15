package v1alpha1

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules about single fields are in struct tags, which the JSON schema, the defaults and the validation share:
//
//	jsonschema  default, enum, minimum and maximum, in the format of package github.com/invopop/jsonschema
//	limits      text that is appended to the error about minimum and maximum
//	need        the field is required; the value is the error if it is missing
//	check       the name of one of the checks below
//
// Defaults that depend on other fields, and rules about several fields, are code.

// schemaTag returns the values that the jsonschema tag of a field sets for a keyword.
func schemaTag(tag reflect.StructTag, keyword string) (values []string) {
	for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		if value, found := strings.CutPrefix(part, keyword+"="); found {
			values = append(values, value)
		}
	}
	return values
}

// walk calls visit for a value and for its fields at any depth, with the tag and the path of each field.
func walk(of reflect.Value, tag reflect.StructTag, at *field.Path,
	visit func(of reflect.Value, tag reflect.StructTag, at *field.Path)) {
	visit(of, tag, at)
	switch of = reflect.Indirect(of); of.Kind() {
	case reflect.Slice:
		for i := range of.Len() {
			walk(of.Index(i), tag, at.Index(i), visit)
		}
	case reflect.Struct:
		for i := range of.NumField() {
			if f := of.Type().Field(i); f.Anonymous {
				walk(of.Field(i), f.Tag, at, visit)
			} else {
				walk(of.Field(i), f.Tag, at.Child(yamlName(f)), visit)
			}
		}
	}
}

// setDefaults sets each empty field to the default value in its tag.
func setDefaults(of reflect.Value) {
	walk(of, "", nil, func(f reflect.Value, tag reflect.StructTag, _ *field.Path) {
		if value := schemaTag(tag, "default"); value != nil && f.IsZero() {
			setTo(f, value[0])
		}
	})
}

// setTo parses the text of a tag and sets a field to the result. A test covers every tag.
func setTo(f reflect.Value, text string) {
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.New(f.Type().Elem()))
		f = f.Elem()
	}
	var err error
	if d, isTime := f.Addr().Interface().(*metav1.Duration); isTime {
		d.Duration, err = time.ParseDuration(text)
	} else if f.Kind() == reflect.Int {
		var n int64
		n, err = strconv.ParseInt(text, 10, 0)
		f.SetInt(n)
	} else {
		f.SetString(text)
	}
	if err != nil {
		panic(fmt.Sprintf("v1alpha1: the default %q of a tag: %v", text, err))
	}
}

type validator struct {
	// scenario is the scenario that is validated, whose strings can contain expressions. It is nil if a configuration
	// is validated.
	scenario *Scenario
	errs     field.ErrorList

	names    *Names   // names that the scenario defines
	waitable []string // background steps for which later steps can wait
}

func (v *validator) add(e *field.Error) { v.errs = append(v.errs, e) }

func (v *validator) invalid(path *field.Path, value any, format string, args ...any) {
	v.add(field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// forbid reports an error for a field that must not be set.
func (v *validator) forbid(path *field.Path, format string, args ...any) {
	v.add(field.Forbidden(path, fmt.Sprintf(format, args...)))
}

func (v *validator) need(path *field.Path, value, what string) bool {
	if strings.TrimSpace(value) == "" {
		v.add(field.Required(path, what))
		return false
	}
	return true
}

// open reports whether a text contains an expression that has not been evaluated yet.
func (v *validator) open(text string) bool { return v.scenario != nil && HasExpression(text) }

// check reports an error if a text fails the named check.
func (v *validator) check(path *field.Path, text, name string) {
	if v.open(text) {
		return
	}
	if problem := checks[name](text); problem != "" {
		v.invalid(path, text, "%s", problem)
	}
}

// value validates a value with the rules in the tag of its field.
func (v *validator) value(value reflect.Value, tag reflect.StructTag, at *field.Path) {
	need, check := tag.Get("need"), tag.Get("check")
	pointer := value.Kind() == reflect.Pointer
	switch value = reflect.Indirect(value); value.Kind() {
	case reflect.Slice:
		if need != "" && value.Len() == 0 && value.Type().Elem().Kind() == reflect.Struct {
			v.add(field.Required(at, need))
		}
	case reflect.Map:
		if check != "" {
			v.keys(value, check, at)
		}
	case reflect.Struct:
		if d, isTime := value.Interface().(metav1.Duration); isTime {
			v.duration(d.Duration, check, at)
		}
	case reflect.Int, reflect.Int64:
		if pointer || !value.IsZero() { // a field that can be set to 0 is a pointer
			v.number(value.Int(), tag, at)
		}
	case reflect.String:
		v.text(value.String(), tag, at)
	}
}

func (v *validator) keys(of reflect.Value, check string, at *field.Path) {
	keys := of.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		path := at.Key(key.String())
		if of.Type().Elem().Kind() == reflect.Interface { // as in the paths of package strictyaml
			path = at.Child(key.String())
		}
		v.check(path, key.String(), check)
	}
}

func (v *validator) duration(d time.Duration, check string, at *field.Path) {
	switch {
	case check == "positive" && d <= 0:
		v.invalid(at, d.String(), "must be longer than 0s")
	case check == "notNegative" && d < 0:
		v.invalid(at, d.String(), "must not be negative")
	}
}

func (v *validator) number(n int64, tag reflect.StructTag, at *field.Path) {
	least, most := schemaTag(tag, "minimum"), schemaTag(tag, "maximum")
	limit := func(text []string) int64 {
		n, _ := strconv.ParseInt(text[0], 10, 64) // the schema test refuses other values
		return n
	}
	switch {
	case least == nil:
	case most == nil && n < limit(least):
		v.invalid(at, n, "must be %s or more", least[0])
	case most != nil && (n < limit(least) || n > limit(most)):
		v.invalid(at, n, "must be between %s and %s%s", least[0], most[0], tag.Get("limits"))
	}
}

func (v *validator) text(text string, tag reflect.StructTag, at *field.Path) {
	check := tag.Get("check")
	switch need, choices := tag.Get("need"), schemaTag(tag, "enum"); {
	case need != "" && !v.need(at, text, need), text == "", check != "cel" && v.open(text):
	case choices != nil && !slices.Contains(choices, text):
		v.add(field.NotSupported(at, text, choices))
	case check == "cel" && HasExpression(text):
		v.forbid(at, "is an expression; write vars.NAME without ${{ }}")
	case check != "" && check != "cel":
		v.check(at, text, check)
	}
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	numbered   = regexp.MustCompile(`-[0-9]+$`)
)

// LabelValue describes a valid label value. Error messages for invalid label values contain it.
const LabelValue = "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"

// checks maps the name of each check to a function. The function returns the problem of a text, or an empty string if
// the text is valid.
var checks = map[string]func(text string) string{
	"label": func(text string) string { return dnsLabel(text, validation.DNS1123LabelMaxLength) },
	"set": func(text string) string {
		if numbered.MatchString(text) {
			return "must not end with a number, because " + text + " would be the name of a base"
		}
		return dnsLabel(text, maxSetName)
	},
	"labelValue": func(text string) string {
		return problemUnless(len(validation.IsValidLabelValue(text)) == 0, "is not a valid label value; "+LabelValue)
	},
	"nodeLabel": func(text string) string {
		return problemUnless(len(validation.IsValidLabelValue(text)) == 0,
			"is not a valid label value for the Node; "+LabelValue)
	},
	"identifier": func(text string) string {
		return problemUnless(identifier.MatchString(text),
			"must consist of letters, digits and _, and not begin with a digit, because expressions use the name")
	},
	"variable": func(text string) string {
		return problemUnless(identifier.MatchString(text),
			"is not a valid environment variable name; use letters, digits and _, and do not begin with a digit")
	},
	"quantity": func(text string) string {
		q, err := resource.ParseQuantity(text)
		return problemUnless(err == nil && q.Sign() > 0, "must be a size such as 256Mi")
	},
	"endpoint": func(text string) string {
		return problemUnless(text == "health" || text == "info", "is not an endpoint of a base; use health or info")
	},
	"jar": func(text string) string {
		u, err := url.Parse(text)
		return problemUnless(err == nil && slices.Contains([]string{"file", "http", "https"}, u.Scheme) &&
			strings.Contains(text, ".jar"),
			"must be the file, http or https URL of a jar, such as https://modules.example/biz1-1.0.0-ark-biz.jar")
	},
}

func dnsLabel(text string, most int) string {
	return problemUnless(len(validation.IsDNS1123Label(text)) == 0 && len(text) <= most, fmt.Sprintf(
		"must be a DNS label: at most %d lower-case letters, digits and hyphens, with a letter or digit at both ends",
		most))
}

func problemUnless(right bool, problem string) string {
	if right {
		return ""
	}
	return problem
}
