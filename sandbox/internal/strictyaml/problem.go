package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a Problem. Empty = a kind of a package that adds problems of its own.
type Kind string

const (
	// Syntax is text that the YAML parser rejects.
	Syntax Kind = "Syntax"
	// EmptyFile is a file without a document.
	EmptyFile Kind = "EmptyFile"
	// SecondDocument is a document that is not read.
	SecondDocument Kind = "SecondDocument"
	// TooLarge is a document that exceeds a limit on its depth or on its number of values.
	TooLarge Kind = "TooLarge"
	// Duplicate is a field that is given twice.
	Duplicate Kind = "Duplicate"
	// UnknownField is a field that the type does not have.
	UnknownField Kind = "UnknownField"
	// InvalidName is a field name that is an expression or that kubectl reads as a boolean.
	InvalidName Kind = "InvalidName"
	// InvalidMerge is a merge key whose value is not a mapping.
	InvalidMerge Kind = "InvalidMerge"
	// WrongType is a value that does not fit the type of its field.
	WrongType Kind = "WrongType"
	// OutOfRange is a number that its field, or JSON, cannot hold.
	OutOfRange Kind = "OutOfRange"
	// Rewritten is a number or a boolean that prints differently from its text.
	Rewritten Kind = "Rewritten"
)

// Problem is one mistake in a file.
type Problem struct {
	Kind Kind
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
