//go:build ruleguard

// Package lint has the rules of this repository for ruleguard, which golangci-lint runs.
package lint

import "github.com/quasilyte/go-ruleguard/dsl"

// assignmentInIf reports an if statement that assigns to an existing variable before its condition. Declarations such
// as if err := f(); err != nil are allowed.
func assignmentInIf(m dsl.Matcher) {
	m.Match(
		`if $x = $y; $c { $*_ }`, `if $x = $y; $c { $*_ } else { $*_ }`, `if $x = $y; $c { $*_ } else if $_ { $*_ }`,
		`if $x, $y = $z; $c { $*_ }`, `if $x, $y = $z; $c { $*_ } else { $*_ }`,
		`if $x, $y, $z = $f; $c { $*_ }`,
		`if $x++; $c { $*_ }`, `if $x++; $c { $*_ } else { $*_ }`, `if $x--; $c { $*_ }`,
		`if $x += $y; $c { $*_ }`, `if $x -= $y; $c { $*_ }`,
	).Report(`assign before the if statement`)
}
