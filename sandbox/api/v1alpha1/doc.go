// Package v1alpha1 holds the files that people write: the configuration of a sandbox, and
// scenarios.
//
//	apiVersion: sandbox.koupleless.io/v1alpha1
//	kind: Sandbox
//
//	types.go      the types, with each field's default in its comment
//	defaults.go   SetDefaults, with the defaults that depend on other fields
//	structure.go  what the tags of a field say: its default, and which values it may have
//	validate.go   Validate, which reports every problem with its field path
//	broker.go     the URL of a broker
//	controller.go  the controller: variables, and a command of the user's own with its templates
//	decode.go     Decode and DecodeScenario: strict reading of a file, with the line of each field
//	sandbox.schema.json   the JSON schema of the types; go generate writes it
//
//	kind: Scenario
//
//	scenario.go                  the types: the scenario, its bases, its steps
//	scenario_actions.go          what a step can do
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
package v1alpha1

//go:generate go run ./internal/genschema
