package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a Problem. It is empty for problems that other packages add.
type Kind string

const (
	// Syntax is text that the YAML parser rejects.
	Syntax Kind = "Syntax"
	// EmptyFile means that the file has no document.
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
	// Source is the file name or flag of the value; empty if unknown.
	Source string
	// Line is the line number, from 1; 0 = unknown.
	Line int
	// Field is the path of the field, such as spec.bases.count. Empty means the whole document.
	Field string
	// Detail is the problem and its fix, in one sentence without a full stop.
	Detail string
	// Excerpt is the line of the problem with a caret below it, indented. It may be empty.
	Excerpt string
}

// String formats the problem as "file:line: field: detail", without unknown parts, followed by the excerpt.
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

// Problems are all problems of a file. As an error, it must not be empty.
type Problems []Problem

// Error returns the problems sorted by line, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems, sorted by line, as an error, or nil if there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line))
	})
	return ps
}
