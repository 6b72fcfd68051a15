// Package strictyaml decodes a YAML file into a Go value and reports all mistakes of the file, each with its
// line and field path.
//
// Unknown fields, duplicate fields and values of the wrong type are mistakes. The line of every field is kept,
// so that later validation can report it.
package strictyaml
