package schema

import (
	"maps"

	"github.com/invopop/jsonschema"
)

// needed holds example values for the fields that each fault kind requires.
var needed = map[any]map[string]any{
	"error":         {"code": "User.DiskFull"},
	"latency":       {"delay": map[string]any{"min": "1s"}},
	"slowLink":      {"delay": map[string]any{"min": "1s"}},
	"delay":         {"delay": map[string]any{"min": "1s"}},
	"clockSkew":     {"skew": "1m"},
	"refuse":        {"status": 409},
	"holdWatch":     ofNodes,
	"oldList":       ofNodes,
	"loseEvents":    ofNodes,
	"doubleEvents":  ofNodes,
	"reorderEvents": ofNodes,
}

var ofNodes = map[string]any{"match": map[string]any{"resource": "nodes"}}

func faultExamples(fault *jsonschema.Schema) {
	kind, _ := fault.Properties.Get("kind")
	known := map[any]bool{nil: true} // without a kind it is an expression
	for _, one := range kind.AnyOf {
		if known[one.Const] {
			continue
		}
		known[one.Const] = true
		example := map[string]any{"kind": one.Const}
		maps.Copy(example, needed[one.Const])
		fault.Examples = append(fault.Examples, example)
	}
}
