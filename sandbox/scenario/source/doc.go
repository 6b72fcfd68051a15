// Package source reads scenario files and checks them as a whole before anything is started:
// structure, rules, every expression, the files that they name, and all of it again for each cell
// of the matrix.
//
//	load.go       Load: files and folders -> scenarios, or all problems at once
//	scenario.go   one file: its static side, names and types
//	check.go      expressions and conditions: do they compile, is each name used
//	vars.go       variables: overriding, and variables that use others
//	instance.go   a scenario for one cell: expressions replaced by their values
//	objects.go    objects of steps: their types, labels and namespaces
//	manifest.go   the files that apply steps name
//
// A file is parsed once. Decoded as it stands, with expressions in places of values, it tells
// names, types and mistakes of structure; expanded for a cell it is decoded again, now strictly,
// and validated. Expressions that use outputs are left until their step begins.
package source
