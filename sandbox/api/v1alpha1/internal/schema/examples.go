package schema

import (
	"github.com/invopop/jsonschema"
)

// needed are the fields that a kind of fault must have beside its kind, with values for an example.
var needed = map[any]map[string]any{
	"error":     {"code": "User.DiskFull"},
	"latency":   {"delay": map[string]any{"min": "1s"}},
	"slowLink":  {"delay": map[string]any{"min": "1s"}},
	"delay":     {"delay": map[string]any{"min": "1s"}},
	"clockSkew": {"skew": "1m"},
}

// faultExamples adds a whole fault of each kind.
func faultExamples(fault *jsonschema.Schema) {
	kind, _ := fault.Properties.Get("kind")
	for _, one := range kind.AnyOf {
		if one.Const == nil { // an expression
			continue
		}
		example := map[string]any{"kind": one.Const}
		for name, value := range needed[one.Const] {
			example[name] = value
		}
		fault.Examples = append(fault.Examples, example)
	}
}
