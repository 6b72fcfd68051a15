// Package v1alpha1 holds the files that people write: the configuration of a sandbox, and
// scenarios.
//
//	apiVersion: sandbox.koupleless.io/v1alpha1
//	kind: Sandbox
//
//	types.go      the types; what each field may be stands in its tags
//	defaults.go   SetDefaults, with the defaults that depend on other fields
//	structure.go  what the tags of a field say: its default, and which values it may have; for
//	              scenarios too
//	validate.go   Validate, which reports every problem with its field path
//	broker.go     the URL of a broker
//	controller.go the controller: variables, and a command of the user's own with its templates
//	decode.go     Decode and DecodeScenario: strict reading of a file, with the line of each field
//	sandbox.schema.json   the JSON schema of the types; go generate writes it
//
//	kind: Scenario
//
//	scenario.go                  the types: the scenario, its bases, its steps
//	scenario_actions.go          what a step can do
//	scenario_fault.go            faults: their targets, kinds and fields
//	scenario_steps.go            walking through steps, and naming them
//	scenario_defaults.go         SetScenarioDefaults
//	scenario_validate.go         ValidateScenario: the scenario as a whole
//	scenario_validate_steps.go   what steps may do
//	scenario_validate_bases.go   bases, faults, traffic
//	scenario.schema.json         its JSON schema
//
// A configuration is complete after Decode (or a zero value), overriding by flags, SetDefaults and
// Validate, in this order. A scenario has expressions in it; package source, in sandbox/scenario,
// reads it in two passes.
//
// The schema, the defaults and the validation read the same tags. No library validates by the schema
// itself: of those looked at, github.com/google/jsonschema-go ends at the first mistake and does not
// say where it is, k8s.io/kube-openapi knows no $ref and so no steps within steps, and
// github.com/santhosh-tekuri/jsonschema, which says where, finds 11 of the 38 mistakes in
// sandbox/scenario/source/testdata/bad/actions.yaml. Turning its errors into these sentences takes
// as much code as finding them.
package v1alpha1

//go:generate go run ./internal/genschema
