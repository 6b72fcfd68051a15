package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/invopop/jsonschema"
)

// Explainer describes the fields of the scenario schema.
type Explainer struct {
	root *jsonschema.Schema
}

// New returns an Explainer for the JSON schema of scenario files.
func New(text []byte) (*Explainer, error) {
	e := &Explainer{root: &jsonschema.Schema{}}
	if err := json.Unmarshal(text, e.root); err != nil {
		return nil, fmt.Errorf("decoding the schema: %w", err)
	}
	return e, nil
}

// Topics returns the names that Topic accepts in addition to field paths: the names of steps, faults and checks.
func (e *Explainer) Topics() []string {
	topics := []string{"step", "fault", "checks", "expressions"}
	topics = append(topics, e.actions()...)
	for _, kind := range e.faultKinds() {
		topics = append(topics, fmt.Sprint(kind.Const))
	}
	topics = slices.AppendSeq(topics, e.root.Definitions["Checks"].Properties.KeysFromOldest())
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (e *Explainer) actions() []string {
	var names []string
	for _, one := range e.root.Definitions["Step"].OneOf {
		names = append(names, one.Required...)
	}
	return names
}

func (e *Explainer) faultKinds() []*jsonschema.Schema {
	var kinds []*jsonschema.Schema
	for _, kind := range e.root.Definitions["Fault"].Properties.Value("kind").AnyOf {
		if kind.Const != nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Topic describes a step, a fault kind, a check, or the field at a path. For an empty topic, it returns the overview.
// It returns an error for an unknown topic.
func (e *Explainer) Topic(topic string) (string, error) {
	switch topic {
	case "":
		return e.overview(), nil
	case "expressions", "expression":
		return expressions, nil
	}
	if text := e.fault(topic); text != "" {
		return text, nil
	}
	path := strings.Split(topic, ".")
	at, name := e.start(path[0])
	if at == nil {
		return "", fmt.Errorf("unknown topic %q", topic)
	}
	for _, field := range path[1:] {
		name += "." + field
		object := e.object(at)
		if object == nil {
			return "", fmt.Errorf("unknown field %s: %s has no fields", topic, strings.TrimSuffix(name, "."+field))
		}
		at = object.Properties.Value(field)
		if at == nil {
			return "", fmt.Errorf("unknown field %s; supported: %s", name,
				strings.Join(slices.Collect(object.Properties.KeysFromOldest()), ", "))
		}
	}
	return e.field(name, at), nil
}

// start returns the schema to which the first element of a field path refers, and the full path of this element.
func (e *Explainer) start(name string) (*jsonschema.Schema, string) {
	step, checks := e.root.Definitions["Step"], e.root.Definitions["Checks"]
	switch name {
	case "step", "steps", "finally":
		return step, "step"
	case "fault":
		return e.root.Definitions["Fault"], name
	case "checks":
		return checks, name
	}
	for _, from := range []struct {
		prefix string
		object *jsonschema.Schema
	}{{"", e.root}, {"step.", step}, {"checks.", checks}, {"spec.", e.object(e.root.Properties.Value("spec"))}} {
		if s := from.object.Properties.Value(name); s != nil {
			return s, from.prefix + name
		}
	}
	for _, definition := range slices.Sorted(maps.Keys(e.root.Definitions)) {
		if strings.EqualFold(definition, name) {
			return e.root.Definitions[definition], definition
		}
	}
	return nil, ""
}

func (e *Explainer) field(name string, s *jsonschema.Schema) string {
	text := fmt.Sprintf("FIELD:  %s <%s>\n\n", name, e.typeOf(s))
	for _, about := range slices.Compact([]string{s.Description, e.description(s)}) {
		if about != "" {
			text += wrapped(about, "") + "\n"
		}
	}
	if object := e.object(s); object != nil {
		text += "FIELDS:\n" + e.fields(object)
	}
	return strings.TrimRight(text, "\n") + "\n"
}

func (e *Explainer) description(s *jsonschema.Schema) string {
	if object := e.object(s); object != nil {
		return object.Description
	}
	return e.deref(s).Description
}

func (e *Explainer) fields(object *jsonschema.Schema) string {
	text := ""
	for name, s := range object.Properties.FromOldest() {
		required := ""
		if slices.Contains(object.Required, name) {
			required = ", required"
		}
		text += fmt.Sprintf("  %s <%s%s>\n", name, e.typeOf(s), required)
		text += wrapped(cmp.Or(s.Description, e.description(s)), "    ")
	}
	return text
}

func wrapped(text, indent string) string {
	if text == "" {
		return ""
	}
	text = ansi.Wordwrap(strings.Join(strings.Fields(text), " "), 80-len(indent), "")
	return indent + strings.ReplaceAll(text, "\n", "\n"+indent) + "\n"
}

// fault describes a fault kind, with an example for each target. It returns "" for an unknown kind.
func (e *Explainer) fault(kind string) string {
	definition, text := e.root.Definitions["Fault"], ""
	var fields []string
	for _, example := range definition.Examples {
		example, _ := example.(map[string]any)
		for name := range definition.Properties.KeysFromOldest() {
			if value, has := example[name]; has && example["kind"] == kind {
				text, _ := json.Marshal(value) // cannot fail: it was read from JSON
				fields = append(fields, name+": "+strings.NewReplacer(`"`, "", ":", ": ").Replace(string(text)))
			}
		}
	}
	for _, k := range e.faultKinds() {
		if k.Const != kind {
			continue
		}
		on := "target: " + k.Title
		if k.Title == "base" {
			on = "bases: [base]"
		}
		text += fmt.Sprintf("FAULT:  %s of the target %s\n\n%s\nExample of a step:\n\n  fault:\n    set:\n      %s\n"+
			"      fault: {%s}\n\n", kind, k.Title, wrapped(kind+" "+k.Description, ""), on, strings.Join(fields, ", "))
	}
	if text != "" {
		text += "See: koupsandbox scenario explain fault\n"
	}
	return text
}
