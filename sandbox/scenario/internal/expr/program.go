package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// costLimit is the maximum cost of an evaluation, in CEL cost units. A loop over all pairs of a thousand Pods costs
// much less.
const costLimit = 50_000_000

// Program is a compiled expression. It may be used concurrently.
type Program struct {
	text      string
	scope     Scope
	out       *cel.Type
	uses      []string
	conjuncts []conjunct
	program   cel.Program
}

// Result is the result of an evaluation.
type Result struct {
	// Value is the value of the expression as a JSON value. In all scopes except the scope Value, it is a bool.
	Value any
	// EmptyLists names the lists that were empty, so that an operand of && compared nothing. If EmptyLists is nil,
	// every operand compared something. Otherwise the result true proves nothing.
	EmptyLists []string
}

// True reports whether the value is true and every operand compared at least one item.
func (r Result) True() bool { return r.Value == true && len(r.EmptyLists) == 0 }

// Compile compiles an expression. The error is of type Problems.
func (e *Env) Compile(text string, kind Scope) (*Program, error) {
	env := e.envs[kind]
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, e.translate(nil, issues, kind).withText(text)
	}
	problems := e.checkNames(parsed.NativeRep())
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, append(problems, e.translate(parsed.NativeRep(), issues, kind)...).withText(text)
	}
	if len(problems) > 0 {
		return nil, problems.withText(text)
	}
	if t := checked.OutputType(); kind != Value && !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, Problems{{Line: 1, Column: 1, Reason: NotBoolean,
			Detail: fmt.Sprintf("must be true or false, but has the type %s", typeName(t))}}
	}
	p := &Program{text: text, scope: kind, out: checked.OutputType(), uses: uses(checked.NativeRep()),
		conjuncts: conjunctsOf(checked)}
	options := []cel.ProgramOption{cel.CostLimit(costLimit)}
	if len(p.conjuncts) > 0 {
		options = append(options, cel.EvalOptions(cel.OptTrackState))
	}
	var err error
	p.program, err = env.Program(checked, options...)
	if err != nil {
		return nil, Problems{{Line: 1, Column: 1, Reason: Other, Detail: err.Error()}}
	}
	return p, nil
}

// Uses returns the names that the expression uses, sorted. These are names of lists and bases, such as pods, and
// names of the forms vars.NAME, matrix.NAME, run.NAME, outputs.NAME and traffic.NAME.
func (p *Program) Uses() []string { return p.uses }

// Text returns the source text of the expression.
func (p *Program) Text() string { return p.text }

// Eval evaluates the expression with the given data. It returns an error if the expression has no value, for example
// because a field does not exist.
func (p *Program) Eval(data Data) (Result, error) {
	out, details, err := p.program.Eval(map[string]any(data))
	if err != nil {
		return Result{}, fmt.Errorf("evaluating %q: %w", p.text, err)
	}
	value, err := toJSONValue(out)
	if err != nil {
		return Result{}, fmt.Errorf("evaluating %q: %w", p.text, err)
	}
	if _, ok := value.(bool); !ok && p.scope != Value {
		return Result{}, fmt.Errorf("evaluating %q: got %v, want true or false", p.text, value)
	}
	result := Result{Value: value}
	if len(p.conjuncts) > 0 {
		result.EmptyLists = emptyLists(p.conjuncts, details.State())
	}
	return result, nil
}

// uses returns the names that an expression uses. For vars and similar names, it returns the name with the field.
func uses(a *ast.AST) []string {
	var names []string
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			names = append(names, e.AsIdent())
		case ast.SelectKind, ast.CallKind:
			if of, field, ok := fieldOf(e); ok &&
				slices.Contains([]string{"vars", "matrix", "run", "outputs", "traffic"}, of) {
				names = append(names, of+"."+field)
			}
		}
	}))
	slices.Sort(names)
	names = slices.Compact(names)
	known := append([]string{"bases", "vars", "matrix", "run", "outputs", "traffic"}, Objects...)
	return slices.DeleteFunc(names, func(name string) bool {
		root, _, _ := strings.Cut(name, ".")
		return !slices.Contains(known, root)
	})
}

// fieldOf splits name.field or name["field"] into the name and the field.
func fieldOf(e ast.Expr) (name, field string, ok bool) {
	var operand ast.Expr
	switch e.Kind() {
	case ast.SelectKind:
		operand, field = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != "_[_]" || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return "", "", false
		}
		key, isString := call.Args()[1].AsLiteral().Value().(string)
		if !isString {
			return "", "", false
		}
		operand, field = call.Args()[0], key
	default:
		return "", "", false
	}
	if operand.Kind() != ast.IdentKind {
		return "", "", false
	}
	return operand.AsIdent(), field, true
}
