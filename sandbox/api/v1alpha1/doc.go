// Package v1alpha1 holds the configuration file of a sandbox:
//
//	apiVersion: sandbox.koupleless.io/v1alpha1
//	kind: Sandbox
//
//	types.go      the types, with each field's default in its comment
//	defaults.go   SetDefaults, the only place where defaults are given
//	validate.go   Validate, which reports every problem with its field path
//	decode.go     Decode: strict reading of a file, with the line of each field
//	sandbox.schema.json   the JSON schema of the types; go generate writes it
//
// A configuration is complete after Decode (or a zero value), overriding by
// flags, SetDefaults and Validate, in this order.
package v1alpha1

//go:generate go run ./internal/genschema
