package strictyaml

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// any decodes a YAML value as encoding/json would: into map[string]any, []any, string, bool, int64, float64 or nil.
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
		v := isTrue(n)
		w.reportRewritten(n, strconv.FormatBool(v), path)
		return v
	case "!!int":
		var v int64
		if n.Decode(&v) == nil {
			w.reportRewritten(n, strconv.FormatInt(v, 10), path)
			return v
		}
		w.problem(OutOfRange, n.Line, path, "%s is out of range; quote it if it is a string", n.Value)
		return nil
	case "!!float":
		var v float64
		if n.Decode(&v) == nil && v-v == 0 { // JSON does not support Inf and NaN
			w.reportRewritten(n, strconv.FormatFloat(v, 'f', -1, 64), path)
			return v
		}
		w.problem(OutOfRange, n.Line, path,
			"%s is a number that JSON does not support; use a finite number, or quote it", n.Value)
		return nil
	}
	return n.Value
}

// isTrue returns the value of a boolean that is written in YAML 1.1 or YAML 1.2 syntax.
func isTrue(n *yaml.Node) bool {
	return slices.Contains([]string{"true", "yes", "on", "y"}, strings.ToLower(n.Value))
}

// reportRewritten records a problem if a number or boolean is written differently in the file than it would be printed.
func (w *walker) reportRewritten(n *yaml.Node, value, path string) {
	if _, computed := w.doc.source.from[n]; value != n.Value && !computed {
		w.doc.rewritten = append(w.doc.rewritten, Problem{Kind: Rewritten, Source: w.name, Line: n.Line, Field: path,
			Detail: fmt.Sprintf("%s is parsed as %s; quote it if it is a string (%q), or write %s", n.Value,
				value, n.Value, value)})
	}
}

// expression reports whether a value is an expression, and records the expression with its position.
func (w *walker) expression(n *yaml.Node, want reflect.Type, path string) bool {
	if w.options.Expression == nil || n.Kind != yaml.ScalarNode || n.Tag != "!!str" || !w.options.Expression(n.Value) {
		return false
	}
	line := n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++ // the text starts in the line after | or >
	}
	w.doc.expressions = append(w.doc.expressions, Expression{Field: path, Line: line, Text: n.Value, Want: want})
	return true
}

var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// Member returns the path of a field in a free-form object, whose keys can be any strings.
func Member(path, key string) string {
	if simple.MatchString(key) {
		return join(path, key)
	}
	return index(path, key)
}
