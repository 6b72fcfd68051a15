package expr

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// conjunct is an operand of && that contains at least one loop.
type conjunct struct {
	ranges []loopRange
}

// loopRange is the list that a loop iterates over.
type loopRange struct {
	id   int64
	text string
}

// conjunctsOf returns the operands of && in an expression that contain loops.
func conjunctsOf(checked *cel.Ast) []conjunct {
	var parts []conjunct
	var split func(e ast.Expr)
	split = func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, arg := range e.AsCall().Args() {
				split(arg)
			}
			return
		}
		var p conjunct
		for _, r := range ranges(e) {
			text, err := cel.ExprToString(r, checked.NativeRep().SourceInfo())
			if err != nil {
				text = "a list"
			}
			p.ranges = append(p.ranges, loopRange{r.ID(), text})
		}
		if len(p.ranges) > 0 {
			parts = append(parts, p)
		}
	}
	split(checked.NativeRep().Expr())
	return parts
}

// ranges returns the lists that the outermost loops in e iterate over. Such a list may be the result of another loop.
func ranges(e ast.Expr) []ast.Expr {
	var found []ast.Expr
	switch e.Kind() {
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		// a macro that binds a name, not a loop
		if r := c.IterRange(); r.Kind() == ast.ListKind && r.AsList().Size() == 0 {
			return append(ranges(c.AccuInit()), ranges(c.Result())...)
		}
		return []ast.Expr{c.IterRange()}
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			found = append(found, ranges(call.Target())...)
		}
		for _, arg := range call.Args() {
			found = append(found, ranges(arg)...)
		}
	case ast.SelectKind:
		return ranges(e.AsSelect().Operand())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			found = append(found, ranges(element)...)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			found = append(found, ranges(entry.AsMapEntry().Key())...)
			found = append(found, ranges(entry.AsMapEntry().Value())...)
		}
	}
	return found
}

// emptyLists considers each operand of && whose loops have iterated only over empty lists, and returns the names of
// these lists.
func emptyLists(parts []conjunct, state interpreter.EvalState) []string {
	var names []string
	for _, p := range parts {
		var empty []string
		full := false
		for _, r := range p.ranges {
			value, evaluated := state.Value(r.id)
			if !evaluated {
				continue
			}
			if sized, ok := value.(traits.Sizer); ok && sized.Size() == types.IntZero {
				empty = append(empty, r.text)
			} else {
				full = true
			}
		}
		if !full {
			names = append(names, empty...)
		}
	}
	return names
}
