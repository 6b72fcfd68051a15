// Package v1alpha1 defines the files that users write: the configuration of a sandbox, and scenarios. Both have the
// apiVersion sandbox.koupleless.io/v1alpha1.
//
//	kind: Sandbox    sandbox.schema.json is its JSON schema
//	kind: Scenario   scenario.schema.json is its JSON schema
//
// go generate writes the schemas. To read a configuration, call Decode, apply the flags, and call Complete, which sets
// the defaults and validates. A scenario contains expressions. Package sandbox/scenario/source reads it in two passes.
//
// The schema, the defaults and the validation use the same struct tags. The validation does not use the schema, because
// no library reports errors as well: github.com/google/jsonschema-go stops at the first error and does not report its
// position; k8s.io/kube-openapi does not support $ref, which nested steps need; github.com/santhosh-tekuri/jsonschema
// finds 11 of the 38 errors in sandbox/scenario/source/testdata/bad/actions.yaml.
package v1alpha1

//go:generate go run ./internal/genschema
