// Package strictyaml decodes a YAML file into a Go value and reports every mistake at once, each
// with its line and its field path.
//
//	source.go       Parse: from text to YAML nodes; Expand replaces strings in them
//	resolve.go      replaces aliases and merge keys
//	strictyaml.go   Decode: walks the YAML nodes along the Go type
//	any.go          values of any type, and strings that stand for a value
//	where.go        where the mistake is in what is not YAML, and how it is shown
//	problem.go      Problem and Problems: what is reported, and how it is printed
//
// An unknown field, a field given twice and a value of the wrong type are mistakes; the position of
// every field is kept, so that a later validation can say where a value came from.
package strictyaml
