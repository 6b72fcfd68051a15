package expr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// Reason classifies a Problem.
type Reason string

// The reasons of problems.
const (
	UnknownName     Reason = "UnknownName"
	MisspelledName  Reason = "MisspelledName" // a known name is similar
	UnknownField    Reason = "UnknownField"
	UnknownFunction Reason = "UnknownFunction"
	UnknownStream   Reason = "UnknownStream"
	UnknownBase     Reason = "UnknownBase"
	UnknownSet      Reason = "UnknownSet"
	NotKnownHere    Reason = "NotKnownHere" // the name is available only in other scopes
	NoOverload      Reason = "NoOverload"   // an operator or function does not accept the types
	NotBoolean      Reason = "NotBoolean"
	NotText         Reason = "NotText" // the value cannot be inserted into a string
	Syntax          Reason = "Syntax"
	Unclosed        Reason = "Unclosed" // a template has no }}
	Empty           Reason = "Empty"    // a template has no expression
	Other           Reason = "Other"    // Detail is an error message of CEL
)

// Problem is an error in an expression.
type Problem struct {
	// Line and Column are the position of the error in the expression, from 1.
	Line, Column int
	Reason       Reason
	// Detail describes the error in a sentence without a full stop.
	Detail string
	// Text is the line that contains the error; empty if the error concerns the whole expression.
	Text string
}

// Excerpt returns the line that contains the error and, in a second line, a caret below the column of the error. Both
// lines are indented. The result is empty if the error concerns the whole expression.
func (p Problem) Excerpt() string { return strictyaml.Excerpt(p.Text, p.Column) }

// withText sets the Text of each problem.
func (ps Problems) withText(text string) Problems {
	lines := strings.Split(text, "\n")
	for i, p := range ps {
		if p.Line >= 1 && p.Line <= len(lines) {
			ps[i].Text = lines[p.Line-1]
		}
	}
	return ps
}

// Problems lists all problems of an expression.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Detail
	}
	return strings.Join(lines, "\n")
}

// checkNames returns a problem for each unknown stream or base that an expression uses. CEL does not check these
// names, because they are map keys.
func (e *Env) checkNames(a *ast.AST) Problems {
	var problems Problems
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		of, name, ok := fieldOf(x)
		if !ok || x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly() {
			return
		}
		at := a.SourceInfo().GetStartLocation(x.ID())
		add := func(reason Reason, detail string) {
			problems = append(problems,
				Problem{Line: at.Line(), Column: at.Column() + 1, Reason: reason, Detail: detail})
		}
		switch {
		case of == "traffic" && e.static.Streams != nil && !slices.Contains(e.static.Streams, name):
			add(UnknownStream, fmt.Sprintf("unknown stream %q%s", name, plain.DidYouMean(name, e.static.Streams)))
		case of == "bases" && e.static.Sets != nil:
			set, isBase := setOf(name)
			switch {
			case !isBase:
				add(UnknownBase, fmt.Sprintf("invalid base name %q; use SET-N, with N counted from 1", name))
			case !slices.Contains(e.static.Sets, set):
				add(UnknownSet, fmt.Sprintf("unknown set of bases %q%s", set, plain.DidYouMean(set, e.static.Sets)))
			}
		}
	}))
	return problems
}

var baseName = regexp.MustCompile(`^(.+)-[1-9][0-9]*$`)

func setOf(base string) (string, bool) {
	m := baseName.FindStringSubmatch(base)
	if m == nil {
		return "", false
	}
	return m[1], true
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '(.*)' \(in container '.*'\)$`)
	undefined  = regexp.MustCompile(`^undefined field '(.*)'$`)
	overload   = regexp.MustCompile(`^found no matching overload for '(.*?)' applied to '(.*)'$`)
	operator   = regexp.MustCompile(`^_?([^a-z_]+)_?$`)
)

// translate converts CEL issues to problems.
func (e *Env) translate(a *ast.AST, issues *cel.Issues, kind Scope) Problems {
	var problems Problems
	for _, issue := range issues.Errors() {
		p := Problem{Line: issue.Location.Line(), Column: issue.Location.Column() + 1}
		var node ast.Expr
		if a != nil {
			node = findNode(a, issue.ExprID)
		}
		message, _, _ := strings.Cut(issue.Message, " expecting ")
		switch m := undeclared.FindStringSubmatch(message); {
		case m != nil:
			p.Reason, p.Detail = e.unknownName(m[1], node, kind)
		case undefined.MatchString(message):
			p.Reason, p.Detail = UnknownField, e.noField(undefined.FindStringSubmatch(message)[1], node)
		case overload.MatchString(message):
			m := overload.FindStringSubmatch(message)
			p.Reason, p.Detail = NoOverload, noOverload(m[1], m[2])
		default:
			p.Reason, p.Detail = Other, message
			if wrong, syntax := strings.CutPrefix(message, "Syntax error: "); syntax {
				p.Reason, p.Detail = Syntax, "syntax error: "+explainSyntax(wrong)
				return append(problems, p) // later errors are consequences of the first
			}
		}
		problems = append(problems, p)
	}
	// If the function of a loop is unknown, its variable is reported as unknown, too.
	if slices.ContainsFunc(problems, func(p Problem) bool { return p.Reason == UnknownFunction }) {
		problems = slices.DeleteFunc(problems,
			func(p Problem) bool { return p.Reason == UnknownName || p.Reason == NotKnownHere })
	}
	return slices.Compact(problems)
}

// syntaxMessages maps syntax errors of the CEL parser to messages for users.
var syntaxMessages = []struct {
	found *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`^token recognition error at: '= *'$`), "= is not an operator; did you mean ==?"},
	{regexp.MustCompile(`^token recognition error at: '['"].*'$`), "the string that starts here has no end"},
	{regexp.MustCompile(`^token recognition error at: '(.*?) *'$`), "unexpected $1"},
	{regexp.MustCompile(`^missing '(.*)' at '<EOF>'$`), "$1 is missing at the end"},
	{regexp.MustCompile(`^missing '(.*)' at '(.*)'$`), "$1 is missing before $2"},
	{regexp.MustCompile(`^(?:mismatched|extraneous) input '<EOF>'$`), "unexpected end of the expression"},
	{regexp.MustCompile(`^(?:mismatched|extraneous) input '(.*)'$`), "unexpected $1"},
	{regexp.MustCompile(`^no viable alternative at input .*`), "unexpected input"},
}

func explainSyntax(wrong string) string {
	for _, w := range syntaxMessages {
		if w.found.MatchString(wrong) {
			return w.found.ReplaceAllString(wrong, w.plain)
		}
	}
	return wrong
}

func (e *Env) unknownName(name string, node ast.Expr, kind Scope) (Reason, string) {
	if node != nil && node.Kind() == ast.CallKind {
		names := slices.Collect(maps.Keys(e.envs[kind].Functions()))
		for _, macro := range e.envs[kind].Macros() {
			names = append(names, macro.Function())
		}
		return UnknownFunction, fmt.Sprintf("unknown function %s%s", name, plain.DidYouMean(name, names))
	}
	if slices.Contains(e.names[Condition], name) {
		return NotKnownHere, fmt.Sprintf("%s is only available in cel, if, always and never", name)
	}
	names := e.names[kind]
	if meant := plain.DidYouMean(name, names); meant != "" {
		return MisspelledName, fmt.Sprintf("unknown name %s%s", name, meant)
	}
	return UnknownName, fmt.Sprintf("unknown name %s; available: %s", name, strings.Join(names, ", "))
}

// noField returns the error message for an unknown field.
func (e *Env) noField(name string, node ast.Expr) string {
	if node == nil || node.Kind() != ast.SelectKind || node.AsSelect().Operand().Kind() != ast.IdentKind {
		all := slices.Collect(maps.Keys(baseFields))
		all = append(append(all, slices.Collect(maps.Keys(moduleFields))...),
			slices.Collect(maps.Keys(streamFields))...)
		return fmt.Sprintf("unknown field %s%s", name, plain.DidYouMean(name, all))
	}
	of := node.AsSelect().Operand().AsIdent()
	names, ours := e.types.FindStructFieldNames("koupsandbox." + of)
	switch meant := plain.DidYouMean(name, names); {
	case !ours:
		return fmt.Sprintf("unknown field %s of %s", name, of)
	case meant != "":
		return fmt.Sprintf("unknown name %s.%s%s", of, name, meant)
	case len(names) == 0:
		return fmt.Sprintf("unknown name %s.%s; the scenario has no %s", of, name, of)
	default:
		return fmt.Sprintf("unknown name %s.%s; fields of %s: %s", of, name, of, strings.Join(names, ", "))
	}
}

func noOverload(function, arguments string) string {
	arguments = strings.ReplaceAll(arguments, "koupsandbox.", "")
	switch m := operator.FindStringSubmatch(function); {
	case function == "_[_]":
		return fmt.Sprintf("operator [ ] does not accept %s", arguments)
	case function == "_?_:_":
		return fmt.Sprintf("operator ? : does not accept %s", arguments)
	case function == "@in":
		return fmt.Sprintf("operator in does not accept %s", arguments)
	case m != nil:
		return fmt.Sprintf("operator %s does not accept %s", m[1], arguments)
	}
	return fmt.Sprintf("function %s does not accept %s", function, arguments)
}

func findNode(a *ast.AST, id int64) ast.Expr {
	var found ast.Expr
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() == id {
			found = e
		}
	}))
	return found
}

func typeName(t *cel.Type) string {
	switch t.Kind() {
	case types.StructKind:
		return "object"
	case types.DynKind:
		return "any"
	}
	return t.String()
}
