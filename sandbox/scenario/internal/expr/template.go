package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

const (
	opening = "${{"
	closing = "}}"
)

// HasExpression reports whether a string contains an expression.
func HasExpression(text string) bool { return strings.Contains(text, opening) }

// Template is a compiled string with expressions. It may be used concurrently.
type Template struct {
	pieces []piece
}

type piece struct {
	text    string
	program *Program // compiled expression; nil for plain text
}

// Template compiles a string with expressions. The error is of type Problems. Templates are cached by text.
func (e *Env) Template(text string) (*Template, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.templates[text]; ok {
		return t, nil
	}
	t, err := e.template(text)
	if err != nil {
		return nil, err
	}
	e.templates[text] = t
	return t, nil
}

func (e *Env) template(text string) (*Template, error) {
	t := &Template{}
	var problems Problems
	line := 1
	for rest := text; rest != ""; {
		plain, behind, found := strings.Cut(rest, opening)
		if plain != "" {
			t.pieces = append(t.pieces, piece{text: plain})
		}
		if !found {
			break
		}
		line += strings.Count(plain, "\n")
		end := endOf(behind)
		if end < 0 {
			problems = append(problems,
				Problem{Line: line, Column: 1, Reason: Unclosed, Detail: "}} is missing after ${{"})
			break
		}
		inside := behind[:end]
		program, err := e.Compile(inside, Value)
		var wrong Problems
		switch {
		case strings.TrimSpace(inside) == "":
			problems = append(problems,
				Problem{Line: line, Column: 1, Reason: Empty, Detail: "${{ }} is empty"})
		case errors.As(err, &wrong):
			for _, p := range wrong {
				p.Line += line - 1
				problems = append(problems, p)
			}
		}
		t.pieces = append(t.pieces, piece{program: program, text: inside})
		line += strings.Count(inside, "\n")
		rest = behind[end+len(closing):]
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if !t.isSingleExpression() {
		for _, p := range t.pieces {
			if p.program != nil && !printable(p.program.out) {
				problems = append(problems, Problem{Line: 1, Column: 1, Reason: NotText,
					Detail: fmt.Sprintf("${{%s}} has the type %s, which cannot be part of a string", p.text,
						typeName(p.program.out))})
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return t, nil
}

// endOf returns the index of the }} that ends an expression. It skips }} in strings, and }} that closes nested maps.
func endOf(text string) int {
	depth := 0
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			switch c {
			case '\\':
				i++
			case quote:
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case strings.HasPrefix(text[i:], closing):
			return i
		}
	}
	return -1
}

// isSingleExpression reports whether the string consists of a single expression. The value of such an expression
// keeps its type.
func (t *Template) isSingleExpression() bool { return len(t.pieces) == 1 && t.pieces[0].program != nil }

// Uses returns the names that the expressions in the template use, sorted.
func (t *Template) Uses() []string {
	var names []string
	for _, p := range t.pieces {
		if p.program != nil {
			names = append(names, p.program.uses...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Eval evaluates the template. If the string consists of a single expression, Eval returns the value of the
// expression. Otherwise it returns the string with the values inserted.
func (t *Template) Eval(data Data) (any, error) {
	if t.isSingleExpression() {
		r, err := t.pieces[0].program.Eval(data)
		return r.Value, err
	}
	var b strings.Builder
	for _, p := range t.pieces {
		if p.program == nil {
			b.WriteString(p.text)
			continue
		}
		r, err := p.program.Eval(data)
		if err != nil {
			return nil, err
		}
		text, ok := formatScalar(r.Value)
		if !ok {
			return nil, fmt.Errorf(
				"evaluating %q: the result has the type %s; only strings, numbers and booleans can be "+
					"inserted into a "+
					"string", p.text, nativeType(r.Value))
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func formatScalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// nativeType returns the name of the type of a value, for use in messages.
func nativeType(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "object"
	case []any:
		return "list"
	}
	return fmt.Sprintf("%T", value)
}

// printable reports whether values of a type can be part of a string.
func printable(t *cel.Type) bool {
	return slices.Contains([]types.Kind{types.StringKind, types.BoolKind, types.IntKind, types.UintKind,
		types.DoubleKind,
		types.DurationKind, types.TimestampKind, types.DynKind}, t.Kind())
}

// Expand returns a copy of a YAML value in which the expressions in all strings are evaluated. Mapping keys are not
// evaluated.
func (e *Env) Expand(value any, data Data) (any, error) {
	switch v := value.(type) {
	case string:
		if !HasExpression(v) {
			return v, nil
		}
		t, err := e.Template(v)
		if err != nil {
			return nil, err
		}
		return t.Eval(data)
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, element := range v {
			expanded, err := e.Expand(element, data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			object[key] = expanded
		}
		return object, nil
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			expanded, err := e.Expand(element, data)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			list[i] = expanded
		}
		return list, nil
	}
	return value, nil
}
