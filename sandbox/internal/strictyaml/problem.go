package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file.
type Problem struct {
	// Source is where the value came from: a file name, or a flag. Empty = unknown.
	Source string
	// Line counts from 1; 0 = no line is known.
	Line int
	// Field is the path of the field, such as spec.bases.count. Empty = the document as a whole.
	Field string
	// Detail says what is wrong and what to do, as one sentence without a full stop.
	Detail string
	// Excerpt shows the mistake in indented lines, with a caret below it. Empty = there is nothing to show.
	Excerpt string
}

// String prints the problem as "file:line: field: detail", leaving out what is not known, and the excerpt
// in the lines after it.
func (p Problem) String() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Detail)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	return b.String()
}

// Problems are all mistakes of a file. It is an error when it is not empty.
type Problems []Problem

// Error prints one problem a line, in the order of the lines.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems, sorted by line, as an error, or nil when there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line))
	})
	return ps
}
