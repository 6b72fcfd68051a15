package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// schema is what is used of a JSON schema.
type schema struct {
	Type        string             `json:"type"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Properties  properties         `json:"properties"`
	Enum        []any              `json:"enum"`
	AnyOf       []*schema          `json:"anyOf"`
	Const       string             `json:"const"`
	Minimum     *json.Number       `json:"minimum"`
	Maximum     *json.Number       `json:"maximum"`
	Definitions map[string]*schema `json:"$defs"`
}

// properties keep the order of the file: a text may speak of the field above it.
type properties []property

type property struct {
	name string
	*schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *properties) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // the opening brace
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		s := &schema{}
		if err := d.Decode(s); err != nil {
			return err
		}
		*p = append(*p, property{fmt.Sprint(name), s})
	}
	return nil
}

// field is a property by its name; nil = there is none.
func (s *schema) field(name string) *schema {
	for _, p := range s.Properties {
		if p.name == name {
			return p.schema
		}
	}
	return nil
}

func readSchema(name string) (*schema, error) {
	text, err := os.ReadFile(filepath.Join(root, "sandbox/api/v1alpha1", name))
	if err != nil {
		return nil, err
	}
	s := &schema{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return s, nil
}

var (
	defaultOf = regexp.MustCompile(` ?Default: (.*?)\.(\s|$)`)
	goField   = regexp.MustCompile(`\b([A-Z]\w+)\.([A-Z]\w+)\b`)
)

// settings are the fields of the configuration file.
func settings(w *words) ([]table, error) {
	s, err := readSchema("sandbox.schema.json")
	if err != nil {
		return nil, err
	}
	t := table{columns: []cell{{"Field", "字段"}, {"Value", "取值"}, {"Default", "默认值"}, {"Meaning", "含义"}}}
	fields(s, "", func(path, name string, f *schema) {
		if path == "kind" || path == "apiVersion" || path == "metadata" || path == "spec" {
			return
		}
		text, preset := strings.Join(strings.Fields(f.Description), " "), ""
		if m := defaultOf.FindStringSubmatch(text); m != nil {
			preset = m[1]
			text = strings.Replace(text, m[0], " ", 1)
		}
		t.rows = append(t.rows, []cell{same("`" + path + "`"), values(f), w.byDefault(preset), w.of("settings", path, named(name, text))})
	})
	return []table{t}, nil
}

// fields visits the fields below a schema, those of an object behind it.
func fields(s *schema, path string, visit func(path, name string, f *schema)) {
	for _, p := range s.Properties {
		full := strings.TrimPrefix(path+"."+p.name, ".")
		visit(full, p.name, p.schema)
		fields(p.schema, full, visit)
	}
}

// named lets a text begin with the field as it is written in a file, not as Go has it.
func named(name, text string) string {
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
			if parts[i] = strings.ToLower(p[:1]) + p[1:]; p == strings.ToUpper(p) {
				parts[i] = strings.ToLower(p)
			}
		}
		return "`" + strings.Join(parts, ".") + "`"
	})
}

// values are what a field takes.
func values(f *schema) cell {
	switch {
	case len(f.Enum) > 0:
		list := make([]string, len(f.Enum))
		for i, v := range f.Enum {
			list[i] = fmt.Sprintf("`%v`", v)
		}
		return same(strings.Join(list, ", "))
	case f.Minimum != nil && f.Maximum != nil:
		return cell{fmt.Sprintf("%s to %s", *f.Minimum, *f.Maximum), fmt.Sprintf("%s 到 %s", *f.Minimum, *f.Maximum)}
	}
	types := map[string]cell{
		"string": {"text", "文本"}, "boolean": {"true, false", "true、false"}, "integer": {"number", "整数"}, "number": {"number", "数"},
		"object": {"fields", "字段"}, "array": {"list", "列表"},
	}
	kind := f.Type
	for _, a := range f.AnyOf {
		kind = cmp.Or(kind, a.Type)
	}
	return types[kind]
}

// fault is the schema of a fault.
func fault() (*schema, error) {
	s, err := readSchema("scenario.schema.json")
	if err != nil {
		return nil, err
	}
	f := s.Definitions["Fault"]
	if f == nil || f.field("kind") == nil || f.field("code") == nil {
		return nil, fmt.Errorf("the schema of scenarios has no faults")
	}
	return f, nil
}

// faultKinds lists the kinds of faults, those of each target together.
func faultKinds(w *words) ([]table, error) {
	f, err := fault()
	if err != nil {
		return nil, err
	}
	t := table{columns: []cell{{"Target", "目标"}, {"Kind", "类型"}, {"What goes wrong", "现象"}}}
	for _, kind := range f.field("kind").AnyOf {
		if kind.Const == "" {
			continue
		}
		key := kind.Const
		if kind.Title != "base" {
			key = kind.Title + "." + key
		}
		text, state := strings.CutSuffix(strings.TrimSpace(kind.Description), " (state).")
		c := w.of("faultKinds", key, named(kind.Const, text))
		if state {
			c = cell{"*state*: " + c.en, "*状态*：" + c.zh}
		}
		t.rows = append(t.rows, []cell{same("`" + kind.Title + "`"), same("`" + kind.Const + "`"), c})
	}
	return []table{t}, nil
}

func faultFields(w *words) ([]table, error) {
	f, err := fault()
	if err != nil {
		return nil, err
	}
	t := table{columns: []cell{{"Field", "字段"}, {"Value", "取值"}, {"Meaning", "含义"}}}
	fields(f, "", func(path, name string, f *schema) {
		t.rows = append(t.rows, []cell{same("`" + path + "`"), values(f), w.of("faultFields", path, named(name, f.Description))})
	})
	return []table{t}, nil
}

func faultCodes(*words) ([]table, error) {
	f, err := fault()
	if err != nil {
		return nil, err
	}
	t := table{columns: []cell{{"Code", "错误码"}}}
	for _, a := range f.field("code").AnyOf {
		for _, code := range a.Enum {
			t.rows = append(t.rows, []cell{same(fmt.Sprintf("`%v`", code))})
		}
	}
	return []table{t}, nil
}
