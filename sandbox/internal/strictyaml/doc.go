// Package strictyaml decodes a YAML file into a Go value and reports every mistake at once, each
// with its line and its field path.
//
// An unknown field, a field given twice and a value of the wrong type are mistakes; the position of
// every field is kept, so that a later validation can say where a value came from.
package strictyaml
