package v1alpha1

import (
	_ "embed" // the schema
)

// ScenarioSchema is the JSON schema of scenario files.
//
//go:embed scenario.schema.json
var ScenarioSchema []byte
