package schema

import (
	"encoding/json"
	"testing"
)

// TestFaultFieldAcceptsExpression checks that the schema accepts an expression for a fault field that is not a
// string. scenarios/base-crash.yaml contains such a field.
func TestFaultFieldAcceptsExpression(t *testing.T) {
	text, err := GenerateScenario("../..")
	if err != nil {
		t.Fatal(err)
	}
	var at any
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"$defs", "Fault", "properties", "restart", "properties", "newIdentity", "anyOf"} {
		fields, _ := at.(map[string]any)
		at = fields[name]
	}
	choices, _ := at.([]any)
	if len(choices) != 2 {
		t.Fatalf("restart.newIdentity has %v, want two alternatives", at)
	}
	if or, _ := choices[1].(map[string]any); or["pattern"] != expression {
		t.Errorf("second alternative = %v, want an expression", or)
	}
}
