// Package source reads scenario files and checks them as a whole before anything is started:
// structure, rules, every expression, the files that they name, and all of it again for each cell
// of the matrix.
//
// A file is parsed once. Decoded as it stands, with expressions in places of values, it tells
// names, types and mistakes of structure; expanded for a cell it is decoded again, now strictly,
// and validated. Expressions that use outputs are left until their step begins.
package source
