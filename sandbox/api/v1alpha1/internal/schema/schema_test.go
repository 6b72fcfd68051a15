package schema

import (
	"encoding/json"
	"testing"
)

// A field within a fault may be an expression too, as in scenarios/base-crash.yaml.
func TestExpressionWithinAFault(t *testing.T) {
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
		t.Fatalf("restart.newIdentity has no choice: %v", at)
	}
	if or, _ := choices[1].(map[string]any); or["pattern"] != expression {
		t.Errorf("beside a boolean it may be %v", or)
	}
}
