package strictyaml

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document contains the positions of the fields in a decoded document.
type Document struct {
	lines       map[string]int
	expressions []Expression
	rewritten   Problems
	nodes       map[string]*yaml.Node
	source      *Source
}

// Rewritten returns a problem for each number or boolean in a free-form value that is written differently than it
// would be printed. For example, 1.10 is the number 1.1. The problems are in file order.
func (d *Document) Rewritten() Problems { return d.rewritten }

// Source returns the part of the file that contains the value of a field. It returns an empty Source if the file does
// not contain the field.
func (d *Document) Source(field string) *Source {
	if d.nodes[field] == nil {
		return &Source{}
	}
	return &Source{name: d.source.name, path: field, line: d.lines[field], root: d.nodes[field], from: d.source.from}
}

// Expressions returns the expressions in the file, in file order. An expression is a string for which
// Options.Expression returns true.
func (d *Document) Expressions() []Expression {
	if d == nil {
		return nil
	}
	return d.expressions
}

// Line returns the line number of a field. If the file does not contain the field, it returns the line of the nearest
// parent. It returns 0 if the file is empty.
func (d *Document) Line(field string) int {
	if d == nil {
		return 0
	}
	for {
		if line, ok := d.lines[field]; ok {
			return line
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return d.lines[""]
		}
		field = field[:cut]
	}
}

// Has reports whether the file contains the field itself, and not only a parent of the field.
func (d *Document) Has(field string) bool {
	if d == nil {
		return false
	}
	_, ok := d.lines[field]
	return ok
}

// Options configures Source.Decode.
type Options struct {
	// Expression reports whether a string is an expression, which the caller will replace with a value before the
	// final decoding. An expression is valid in a field of any type. Default: no string is an expression.
	Expression func(text string) bool
	// Partial makes Decode report only values of the wrong type. Decode then ignores unknown fields, duplicate
	// fields, and fields whose type cannot be decoded from YAML.
	Partial bool
}

// Expression is a string that will be replaced by a value.
type Expression struct {
	// Field is the path of the field that contains the expression. Line is its line number.
	Field string
	Line  int
	// Text is the whole string that contains the expression.
	Text string
	// Want is the type of the field that contains the expression.
	Want reflect.Type
}

// Decode decodes data, which must contain one YAML document, into the struct that into points to, based on the json
// tags of the struct. Fields that are not in the document keep their values. name is only used in problems. If there
// are problems, into contains all values that could be decoded.
func Decode(name string, data []byte, into any) (*Document, Problems) {
	source, problems := Parse(name, data)
	doc, more := source.Decode(into, Options{})
	return doc, append(problems, more...)
}

// Decode decodes the source into the struct that into points to; see the function Decode.
func (s *Source) Decode(into any, o Options) (*Document, Problems) {
	w := &walker{name: s.name, doc: &Document{lines: map[string]int{}, nodes: map[string]*yaml.Node{}, source: s},
		options: o}
	if s.root != nil {
		w.value(s.root, reflect.ValueOf(into).Elem(), s.path)
	}
	return w.doc, w.problems
}

type walker struct {
	name     string
	doc      *Document
	options  Options
	problems Problems
}

func (w *walker) problem(kind Kind, line int, field, format string, args ...any) {
	w.problems = append(w.problems,
		Problem{Kind: kind, Source: w.name, Line: line, Field: field, Detail: fmt.Sprintf(format, args...)})
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (w *walker) value(n *yaml.Node, v reflect.Value, path string) {
	if _, seen := w.doc.lines[path]; !seen {
		w.doc.lines[path] = n.Line
	}
	w.doc.nodes[path] = n
	if n.Tag == "!!null" {
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		w.value(n, v.Elem(), path)
		return
	}
	if w.expression(n, v.Type(), path) && v.Kind() != reflect.String && v.Kind() != reflect.Interface {
		return
	}
	if t := reflect.PointerTo(v.Type()); t.Implements(jsonUnmarshaler) || t.Implements(textUnmarshaler) {
		w.custom(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		w.object(n, v, path)
	case reflect.Map:
		w.dictionary(n, v, path)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // base64
			w.scalar(n, reflect.New(reflect.TypeFor[string]()).Elem(), path)
			return
		}
		w.list(n, v, path)
	case reflect.Interface:
		w.any(n, v, path)
	default:
		w.scalar(n, v, path)
	}
}

// keys calls each for every key of a mapping, but only once for a duplicate key, which it reports. join returns the
// path of a key.
func (w *walker) keys(n *yaml.Node, path, what string, join func(path, key string) string,
	each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		w.problem(WrongType, n.Line, path, "must be %s, but is %s", what, describe(n, w.doc.source.from))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := first[key.Value]; twice {
			if !w.options.Partial {
				w.problem(Duplicate, key.Line, join(path, key.Value),
					"is already set on line %d; remove one of the two",
					line)
			}
			continue
		}
		first[key.Value] = key.Line
		if w.options.Expression != nil && w.options.Expression(key.Value) {
			w.problem(InvalidName, key.Line, path, "a field name cannot be an expression: %s", key.Value)
			continue
		}
		w.doc.lines[join(path, key.Value)] = key.Line
		each(key, value)
	}
}

func (w *walker) object(n *yaml.Node, v reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	collect(v, fields)
	w.keys(n, path, "a mapping of fields", join, func(key, value *yaml.Node) {
		field, known := fields[key.Value]
		if !known && w.options.Partial {
			return
		}
		if !known {
			names := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			w.problem(UnknownField, key.Line, join(path, key.Value), "is not a field; supported fields: %s", names)
			return
		}
		w.value(value, field, join(path, key.Value))
	})
}

// collect adds the fields of the struct v to into, by JSON name, including the fields of embedded structs.
func collect(v reflect.Value, into map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous:
			collect(v.Field(i), into)
		case name != "" && name != "-":
			into[name] = v.Field(i)
		}
	}
}

func (w *walker) dictionary(n *yaml.Node, v reflect.Value, path string) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	place := index
	if v.Type().Elem().Kind() == reflect.Interface { // part of a free-form object
		place = Member
	}
	w.keys(n, path, "a mapping", place, func(key, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		w.value(value, element, place(path, key.Value))
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
	})
}

func (w *walker) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		w.problem(WrongType, n.Line, path, "must be a list, but is %s", describe(n, w.doc.source.from))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		w.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

// custom decodes a value of a type that has its own JSON format, such as metav1.Duration.
func (w *walker) custom(n *yaml.Node, v reflect.Value, path string) {
	var plain any
	if err := n.Decode(&plain); err != nil {
		w.problem(WrongType, n.Line, path, "%s", syntaxLine.ReplaceAllString(err.Error(), ""))
		return
	}
	asJSON, err := json.Marshal(plain)
	if err == nil {
		err = json.Unmarshal(asJSON, v.Addr().Interface())
	}
	if err != nil {
		hint := ""
		if v.Type().Name() == "Duration" {
			hint = " as a duration; use a value such as 90s or 2m"
		}
		w.problem(WrongType, n.Line, path, "%s cannot be read%s", describe(n, w.doc.source.from), hint)
	}
}

func (w *walker) scalar(n *yaml.Node, v reflect.Value, path string) {
	var tags []string
	var what string
	switch v.Kind() {
	case reflect.String:
		tags, what = []string{"!!str"}, "a string"
	case reflect.Bool:
		tags, what = []string{"!!bool"}, "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		tags, what = []string{"!!int"}, "a whole number"
	case reflect.Float64:
		tags, what = []string{"!!float", "!!int"}, "a number"
	default:
		if !w.options.Partial {
			w.problem(WrongType, n.Line, path, "cannot be read from YAML")
		}
		return
	}
	if n.Tag == "!!float" && v.CanInt() {
		var f float64
		if n.Decode(&f) == nil && f == float64(int64(f)) && !v.OverflowInt(int64(f)) { // 1.0 and 1e3 are whole numbers
			v.SetInt(int64(f))
			return
		}
	}
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.Tag) {
		hint := ""
		if v.Kind() == reflect.String && n.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("; quote it (%q)", n.Value)
			if _, computed := w.doc.source.from[n]; computed {
				hint = "; quote that value, or write ${{ string(…) }}"
			}
		}
		w.problem(WrongType, n.Line, path, "must be %s, but is %s%s", what, describe(n, w.doc.source.from), hint)
		return
	}
	if v.Kind() == reflect.Bool {
		v.SetBool(isTrue(n))
		return
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		w.problem(OutOfRange, n.Line, path, "%s is out of range", n.Value)
	}
}

// describe describes a value for use in an error message. If the value has replaced an expression, the description
// contains the expression.
func describe(n *yaml.Node, from map[*yaml.Node]string) string {
	text, computed := from[n]
	switch {
	case computed:
		return describe(n, nil) + ", the value of " + strings.TrimSpace(text)
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!str":
		return strconv.Quote(n.Value)
	case n.Tag == "!!int", n.Tag == "!!float":
		return "the number " + n.Value
	case n.Tag == "!!bool":
		return "the boolean " + n.Value
	default:
		return n.Value
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index appends a key to a path, in the format of k8s.io/apimachinery field paths.
func index(path, key string) string {
	return path + "[" + key + "]"
}
