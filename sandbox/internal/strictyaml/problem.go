package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a Problem. It is empty for a Problem that another package has created.
type Kind string

const (
	// Syntax means that the YAML parser rejects the text.
	Syntax Kind = "Syntax"
	// EmptyFile means that the file contains no document.
	EmptyFile Kind = "EmptyFile"
	// SecondDocument means that the file contains more than one document. Only the first document is read.
	SecondDocument Kind = "SecondDocument"
	// TooLarge means that a document is nested too deeply or contains too many values.
	TooLarge Kind = "TooLarge"
	// Duplicate means that a field is set twice.
	Duplicate Kind = "Duplicate"
	// UnknownField means that the Go type does not have the field.
	UnknownField Kind = "UnknownField"
	// InvalidName means that a field name is an expression, or a word that kubectl reads as a boolean.
	InvalidName Kind = "InvalidName"
	// InvalidMerge means that the value of a merge key is not a mapping.
	InvalidMerge Kind = "InvalidMerge"
	// WrongType means that a value does not have the type of its field.
	WrongType Kind = "WrongType"
	// OutOfRange means that a number cannot be represented in the type of the field, or in JSON.
	OutOfRange Kind = "OutOfRange"
	// Rewritten means that a number or boolean is written differently in the file than it would be printed.
	Rewritten Kind = "Rewritten"
)

// Problem describes one mistake in a file.
type Problem struct {
	Kind Kind
	// Source is the name of the file or flag that contains the value; empty if unknown.
	Source string
	// Line is the line number, counted from 1; 0 means that the line is unknown.
	Line int
	// Field is the path of the field, such as spec.bases.count. It is empty if the problem concerns the whole
	// document.
	Field string
	// Detail describes the problem and its fix, in one sentence without a full stop.
	Detail string
	// Excerpt is the line of the file that contains the problem, followed by a line with a caret, both indented. It
	// may be empty.
	Excerpt string
}

// String formats the problem as "file:line: field: detail", followed by the excerpt. It omits unknown parts.
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

// Problems lists all problems of a file. Problems that are returned as an error must not be empty.
type Problems []Problem

// Error returns the problems, sorted by line. Each problem starts on a new line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems, sorted by line, as an error. It returns nil if there are no problems.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Line, b.Line))
	})
	return ps
}
