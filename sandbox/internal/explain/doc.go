// Package explain says in words what can be written in a scenario file. It knows nothing but the
// JSON schema, which has the comments of the types.
//
//	schema.go    reads the schema
//	explain.go   Topic: a field, a step, a fault, a check
//	text.go      what is no field: the overview, and expressions
package explain
