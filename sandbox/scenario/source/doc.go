// Package source reads scenario files and validates them before anything is started: structure, rules, expressions and
// referenced files, for each cell of the matrix.
//
// A file is parsed once. It is first decoded with its expressions, which yields names, types and structural errors. For
// each cell, it is expanded, decoded strictly and validated. Expressions that use outputs are evaluated when their step
// starts.
package source
