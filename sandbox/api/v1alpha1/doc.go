// Package v1alpha1 holds the files that people write: the configuration of a sandbox, and
// scenarios.
//
//	apiVersion: sandbox.koupleless.io/v1alpha1
//	kind: Sandbox
//
//	sandbox.schema.json   the JSON schema of the types; go generate writes it
//
//	kind: Scenario
//
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
