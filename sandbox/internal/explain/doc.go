// Package explain describes the fields of a scenario file. It reads only the JSON schema, which has the
// comments of the types.
package explain
