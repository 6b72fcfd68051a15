package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

func readSchema(name string) (*jsonschema.Schema, error) {
	text, err := os.ReadFile(filepath.Join(root, "sandbox/api/v1alpha1", name))
	if err != nil {
		return nil, err
	}
	s := &jsonschema.Schema{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", name, err)
	}
	return s, nil
}

var (
	defaultOf = regexp.MustCompile(` ?Default: (.*?)\.(\s|$)`)
	goField   = regexp.MustCompile(`\b([A-Z]\w+)\.([A-Z]\w+)\b`)
)

func settings(w *translations) ([]table, error) {
	s, err := readSchema("sandbox.schema.json")
	if err != nil {
		return nil, err
	}
	var t table
	fields(s, "", func(path, name string, f *jsonschema.Schema) {
		if path == "kind" || path == "apiVersion" || path == "metadata" || path == "spec" {
			return
		}
		text, defaultText := strings.Join(strings.Fields(f.Description), " "), ""
		if m := defaultOf.FindStringSubmatch(text); m != nil {
			defaultText = m[1]
			text = strings.Replace(text, m[0], " ", 1)
		}
		shown := same("`" + path + "`")
		if len(f.Enum) > 0 || f.Minimum != "" {
			v := values(f)
			shown = cell{shown.en + " (" + v.en + ")", shown.zh + "（" + strings.ReplaceAll(v.zh, ", ", "、") + "）"}
		}
		meaning := w.text("settings", path, describe(name, text))
		if d := w.defaultCell(defaultText); d.en != "" {
			meaning = cell{meaning.en + " Default: " + d.en + ".", meaning.zh + "。默认：" + d.zh}
		}
		t.rows = append(t.rows, []cell{shown, meaning})
	})
	return []table{t}, nil
}

// page matches the path of an English page.
var page = regexp.MustCompile(`docs/en/([a-z-]+/)([a-z0-9-]+)\.md`)

// sibling matches the Go name of another field in the description of a setting.
var sibling = regexp.MustCompile(`([ ,])(Args|Command|Env|Files|Image|Port|WorkingDir)\b`)

// describe converts the comment of a field to a text for the settings page. It removes the leading field name, replaces
// Go field names with YAML names, and replaces paths of pages with links.
func describe(name, text string) string {
	text = withYAMLName(name, text)
	if rest, found := strings.CutPrefix(text, "`"+name+"` "); found {
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "is the "), "is a ")
		text = strings.ToUpper(rest[:1]) + rest[1:]
	}
	text = sibling.ReplaceAllStringFunc(text, func(found string) string {
		return found[:1] + "`" + strings.ToLower(found[1:2]) + found[2:] + "`"
	})
	return page.ReplaceAllStringFunc(text, func(path string) string {
		m := page.FindStringSubmatch(path)
		return "[" + strings.ReplaceAll(m[2], "-", " ") + "](../" + m[1] + m[2] + ".md)"
	})
}

// fields visits all fields of a schema, including nested fields. It visits a parent before its fields.
func fields(s *jsonschema.Schema, path string, visit func(path, name string, f *jsonschema.Schema)) {
	for name, p := range s.Properties.FromOldest() {
		full := strings.TrimPrefix(path+"."+name, ".")
		visit(full, name, p)
		fields(p, full, visit)
		if name == "bases" { // the fields of other lists are on other pages
			fields(p.Items, full+"[]", visit)
		}
	}
}

// withYAMLName replaces the Go field name at the start of a text with the YAML name.
func withYAMLName(name, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "see the field above"
	}
	first, rest, _ := strings.Cut(text, " ")
	if strings.EqualFold(first, name) {
		text = "`" + name + "` " + rest
	}
	return goField.ReplaceAllStringFunc(text, func(f string) string {
		parts := strings.Split(f, ".")
		for i, p := range parts {
			parts[i] = strings.ToLower(p[:1]) + p[1:]
			if p == strings.ToUpper(p) {
				parts[i] = strings.ToLower(p)
			}
		}
		return "`" + strings.Join(parts, ".") + "`"
	})
}

func values(f *jsonschema.Schema) cell {
	switch {
	case len(f.Enum) > 0:
		list := make([]string, len(f.Enum))
		for i, v := range f.Enum {
			list[i] = fmt.Sprintf("`%v`", v)
		}
		return same(strings.Join(list, ", "))
	case f.Minimum != "" && f.Maximum != "":
		return cell{fmt.Sprintf("%s to %s", f.Minimum, f.Maximum), fmt.Sprintf("%s 到 %s", f.Minimum, f.Maximum)}
	}
	types := map[string]cell{
		"string": {"text", "文本"}, "boolean": {"true, false", "true、false"}, "integer": {"number", "整数"},
		"number": {"number", "数"},
		"object": {"fields", "字段"}, "array": {"list", "列表"},
	}
	kind := f.Type
	for _, a := range f.AnyOf {
		kind = cmp.Or(kind, a.Type)
	}
	return types[kind]
}

func definition(name string) (*jsonschema.Schema, error) {
	s, err := readSchema("scenario.schema.json")
	if err != nil {
		return nil, err
	}
	d := s.Definitions[name]
	if d == nil {
		return nil, fmt.Errorf("the scenario schema has no definition %q", name)
	}
	return d, nil
}

// stepKinds returns the list of the scenario step kinds. Step kinds with the same description share an item, whose
// description names them.
func stepKinds(w *translations) ([]table, error) {
	step, err := definition("Step")
	if err != nil {
		return nil, err
	}
	var t table
	before := ""
	for i, one := range step.OneOf {
		name := one.Required[0]
		text := step.Properties.Value(name).Description
		if text == before {
			row := t.rows[len(t.rows)-1]
			row[0] = same(row[0].en + ", `" + name + "`")
			continue
		}
		before = text
		meaning := describe(name, text)
		if i+1 < len(step.OneOf) && step.Properties.Value(step.OneOf[i+1].Required[0]).Description == text {
			meaning = withYAMLName(name, text)
		}
		t.rows = append(t.rows, []cell{same("`" + name + "`"), w.text("steps", name, withStepNames(meaning))})
	}
	return []table{t}, nil
}

// stepName matches the Go names of step kinds in a description that several step kinds share.
var stepName = regexp.MustCompile(`\b(Controller|Broker|APIServer|ControllerManager|Scheduler|Parallel)\b`)

// withStepNames replaces Go names of step kinds with YAML names.
func withStepNames(text string) string {
	return stepName.ReplaceAllStringFunc(text, func(name string) string {
		if name == "APIServer" {
			return "`apiserver`"
		}
		return "`" + strings.ToLower(name[:1]) + name[1:] + "`"
	})
}

// faultKinds returns a list of fault kinds for each target.
func faultKinds(w *translations) ([]table, error) {
	f, err := definition("Fault")
	if err != nil {
		return nil, err
	}
	var tables []table
	target := ""
	for _, kind := range f.Properties.Value("kind").AnyOf {
		name, isKind := kind.Const.(string)
		if !isKind {
			continue
		}
		if kind.Title != target {
			target = kind.Title
			tables = append(tables, table{title: cell{"Fault kinds for the target " + target, "目标 " + target + " 的类型"}})
		}
		key := name
		if target != "base" {
			key = target + "." + key
		}
		text, state := strings.CutSuffix(strings.Join(strings.Fields(kind.Description), " "), " (state).")
		c := w.text("faultKinds", key, strings.TrimSuffix(withFaultFields(withYAMLName(name, text)), "."))
		if state {
			c = cell{"*state*: " + c.en, "*状态*：" + c.zh}
		}
		t := &tables[len(tables)-1]
		t.rows = append(t.rows, []cell{same("`" + name + "`"), c})
	}
	return tables, nil
}

// faultField matches the Go names of fault fields in the texts of fault kinds and fault fields.
var faultField = regexp.MustCompile(`\b(Match|Count|Code|Delay|Period|Skew|Restart|Min|Version)\b`)

// withFaultFields replaces Go field names with YAML names.
func withFaultFields(text string) string {
	return faultField.ReplaceAllStringFunc(text, func(name string) string { return "`" + strings.ToLower(name) + "`" })
}

// zeroDefault matches a default that is the zero value. fieldIs matches the start of a comment, such as "Skip is the".
var (
	zeroDefault = regexp.MustCompile(` Default: (0|false|all of them)\.`)
	fieldIs     = regexp.MustCompile("^`\\w+`( and `\\w+` are( the)?| is( the| a)?)? ")
)

// faultFields returns the list of the fields of a fault. A field that is described together with the field before it
// has no item of its own.
func faultFields(w *translations) ([]table, error) {
	f, err := definition("Fault")
	if err != nil {
		return nil, err
	}
	t := table{}
	fields(f, "", func(path, name string, f *jsonschema.Schema) {
		if f.Description == "" {
			row := t.rows[len(t.rows)-1]
			row[0] = cell{row[0].en + ", `" + path + "`", row[0].zh + "、`" + path + "`"}
			return
		}
		text := fieldIs.ReplaceAllString(withFaultFields(withYAMLName(name, f.Description)), "")
		text = strings.TrimSuffix(zeroDefault.ReplaceAllString(text, ""), ".")
		t.rows = append(t.rows, []cell{same("`" + path + "`"), w.text("faultFields", path, text)})
	})
	return []table{t}, nil
}
