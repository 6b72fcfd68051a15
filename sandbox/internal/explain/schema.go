package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// schema is the part of a JSON schema that is used here.
type schema struct {
	Type        string             `json:"type"`
	Ref         string             `json:"$ref"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Properties  properties         `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Values      json.RawMessage    `json:"additionalProperties"`
	AnyOf       []*schema          `json:"anyOf"`
	OneOf       []*schema          `json:"oneOf"`
	Enum        []any              `json:"enum"`
	Const       string             `json:"const"`
	Pattern     string             `json:"pattern"`
	Examples    []any              `json:"examples"`
	Definitions map[string]*schema `json:"$defs"`
}

// property is a field with its name.
type property struct {
	name   string
	schema *schema
}

// properties keep the order of the file.
type properties []property

// UnmarshalJSON implements json.Unmarshaler.
func (p *properties) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // the opening brace
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return fmt.Errorf("the name of a field is %v", key)
		}
		s := &schema{}
		if err := d.Decode(s); err != nil {
			return err
		}
		*p = append(*p, property{name, s})
	}
	return nil
}

func (s *schema) property(name string) *schema {
	for _, p := range s.Properties {
		if p.name == name {
			return p.schema
		}
	}
	return nil
}

// deref returns what a field's schema refers to.
func (e *Explainer) deref(s *schema) *schema {
	for s.Ref != "" {
		s = e.root.Definitions[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	return s
}

// object returns the schema whose fields a field has, through lists and references; nil when it has
// none.
func (e *Explainer) object(s *schema) *schema {
	s = e.deref(s)
	if s.Type == "array" && s.Items != nil {
		return e.object(s.Items)
	}
	if len(s.Properties) == 0 {
		return nil
	}
	return s
}

// typeOf writes the type of a field.
func (e *Explainer) typeOf(s *schema) string {
	s = e.deref(s)
	switch {
	case len(s.AnyOf) > 0 && s.AnyOf[0].Const != "":
		return "string"
	case len(s.AnyOf) > 0:
		return e.typeOf(s.AnyOf[0])
	case len(s.Enum) > 0:
		names := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			names[i] = fmt.Sprint(value)
		}
		return strings.Join(names, "|")
	case s.Type == "array" && s.Items != nil:
		return "[]" + e.typeOf(s.Items)
	case s.Type == "integer":
		return "int"
	case s.Type == "boolean":
		return "bool"
	case s.Type == "object" && len(s.Properties) == 0 && strings.Contains(string(s.Values), "string"):
		return "map of strings"
	case s.Type == "string" && len(s.Examples) > 0:
		return "time, such as " + fmt.Sprint(s.Examples[0])
	case s.Type == "":
		return "any"
	}
	return s.Type
}
