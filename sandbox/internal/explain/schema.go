package explain

import (
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"
)

func (e *Explainer) deref(s *jsonschema.Schema) *jsonschema.Schema {
	for s.Ref != "" {
		s = e.root.Definitions[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	return s
}

// object returns the object schema of a field. If the field is a list, it returns the schema of the list's items. It
// follows references. It returns nil if the field does not contain objects.
func (e *Explainer) object(s *jsonschema.Schema) *jsonschema.Schema {
	s = e.deref(s)
	if s.Type == "array" && s.Items != nil {
		return e.object(s.Items)
	}
	if s.Properties.Len() == 0 {
		return nil
	}
	return s
}

func (e *Explainer) typeOf(s *jsonschema.Schema) string {
	s = e.deref(s)
	switch {
	case len(s.AnyOf) > 0 && s.AnyOf[0].Const != nil:
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
	case s.Type == "object" && s.Properties.Len() == 0 && s.AdditionalProperties != nil &&
		s.AdditionalProperties.Type == "string":
		return "map of strings"
	case s.Type == "string" && len(s.Examples) > 0:
		return "time, such as " + fmt.Sprint(s.Examples[0])
	case s.Type == "":
		return "any"
	}
	return s.Type
}
