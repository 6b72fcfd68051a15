package strictyaml

import (
	"reflect"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// any reads a value of any type into what JSON has: map[string]any, []any, string, bool, int64,
// float64 and nil.
func (w *walker) any(n *yaml.Node, v reflect.Value, path string) {
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		w.dictionary(n, reflect.ValueOf(&object).Elem(), path)
		v.Set(reflect.ValueOf(object))
	case yaml.SequenceNode:
		var list []any
		w.list(n, reflect.ValueOf(&list).Elem(), path)
		v.Set(reflect.ValueOf(list))
	default:
		if value := w.plain(n, path); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	}
}

func (w *walker) plain(n *yaml.Node, path string) any {
	switch n.Tag {
	case "!!bool":
		var v bool
		if n.Decode(&v) == nil {
			return v
		}
	case "!!int":
		var v int64
		if n.Decode(&v) == nil {
			return v
		}
		w.problem(n.Line, path, "%s is out of range", n.Value)
		return nil
	case "!!float":
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil && v-v == 0 { // JSON has neither Inf nor NaN
			return v
		}
		w.problem(n.Line, path, "%s is no number that JSON has: put it in quotes", n.Value)
		return nil
	}
	return n.Value
}

// expression notes a string that will be replaced, and tells whether it is one.
func (w *walker) expression(n *yaml.Node, want reflect.Type, path string) bool {
	if w.options.Expression == nil || n.Kind != yaml.ScalarNode || n.Tag != "!!str" || !w.options.Expression(n.Value) {
		return false
	}
	line := n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++ // the text begins behind the line with its | or >
	}
	w.doc.expressions = append(w.doc.expressions, Expression{Field: path, Line: line, Text: n.Value, Want: want})
	return true
}

var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// member writes the path of a field of a free-form object.
func member(path, key string) string {
	if simple.MatchString(key) {
		return join(path, key)
	}
	return index(path, key)
}
