// Package explain says in words what can be written in a scenario file. It knows nothing but the
// JSON schema, which has the comments of the types.
package explain
