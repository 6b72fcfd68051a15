package strictyaml_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

type thing struct {
	Name   string         `json:"name"`
	Count  *int           `json:"count"`
	On     bool           `json:"on"`
	List   []string       `json:"list"`
	Object map[string]any `json:"object"`
	Any    any            `json:"any"`
	Inner  *thing         `json:"inner"`
}

func isExpression(text string) bool { return strings.Contains(text, "${{") }

// TestAny checks that the values in a free-form value have the same types as in JSON, and that each field has a line
// number.
func TestAny(t *testing.T) {
	const text = `object:
  spec:
    replicas: 3
    share: 0.5
    date: 2026-11-20
    nothing: null
    "a.b/c": [x, {y: true}]
any:
  - 1
  - key: "2"
`
	var got thing
	doc, problems := strictyaml.Decode("f.yaml", []byte(text), &got)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := thing{
		Object: map[string]any{"spec": map[string]any{"replicas": int64(3), "share": 0.5, "date": "2026-11-20",
			"nothing": nil,
			"a.b/c":   []any{"x", map[string]any{"y": true}}}},
		Any: []any{int64(1), map[string]any{"key": "2"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("value (-want +got):\n%s", diff)
	}
	for field, line := range map[string]int{"object.spec.replicas": 3, "object.spec[a.b/c][1].y": 7, "any[1].key": 10,
		"object.spec.gone": 2} {
		if got := doc.Line(field); got != line {
			t.Errorf("%s stands in line %d, want %d", field, got, line)
		}
	}
}

// problem describes an expected Problem. Its zero value means that no problem is expected.
type problem struct {
	line  int
	field string
	kind  strictyaml.Kind
	names string // text that the detail must contain
}

func (want problem) check(t *testing.T, text string, problems strictyaml.Problems) {
	t.Helper()
	var got problem
	for _, p := range problems {
		got = (problem{p.Line, p.Field, p.Kind, want.names})
		if !strings.Contains(p.Detail, want.names) {
			got.names = p.Detail
		}
	}
	if got != want || len(problems) > 1 {
		t.Errorf("%.40q: got %+v (%d problems), want %+v", text, got, len(problems), want)
	}
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]problem{
		"any: {a: 1, a: 2}":               {1, "any.a", strictyaml.Duplicate, "line 1"},
		"any: .inf":                       {1, "any", strictyaml.OutOfRange, ".inf"},
		"any: 99999999999999999999999999": {},
		"any: {<<: 1}":                    {1, "", strictyaml.InvalidMerge, "1"},
		"any:\n  <<: [[{a: 1}]]":          {2, "", strictyaml.InvalidMerge, "<<"},
		"any: &a {x: 1}\nobject: {<<: *a,\n  x: 2, x: 3}": {3, "object.x", strictyaml.Duplicate, "line 3"},
		"inner: &a {<<: *a}":                              {1, "", strictyaml.TooLarge, "100"},
		"name: 1.10":                                      {1, "name", strictyaml.WrongType, `"1.10"`},
		"name: true":                                      {1, "name", strictyaml.WrongType, `"true"`},
		"name: on\ncount: 1.0":                            {},
		"count: 1.5":                                      {1, "count", strictyaml.WrongType, "1.5"},
		"name: a\n---\nname: b":                           {2, "", strictyaml.SecondDocument, ""},
		"inner: &a {inner: *a}":                           {1, "", strictyaml.TooLarge, "100"},
		"object: {\"${{ x }}\": 1}":                       {},
		"list: &a [x]\nobject: {l: *a}\nany: *a":          {},
		"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" +
			"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"any: [" + strings.Repeat("*d,", 19) + "*d]": {1, "", strictyaml.TooLarge, "200000"},
	} {
		_, problems := strictyaml.Decode("f", []byte(text), &thing{})
		want.check(t, text, problems)
	}
}

// TestExpressions checks that an expression is valid in a field of any type, and that Expressions returns each
// expression with its position and the type of its field.
func TestExpressions(t *testing.T) {
	const text = `name: ${{ a }}
count: ${{ b }}
on: ${{ c }}
list: ${{ d }}
object:
  x: |
    ${{ e }}
inner: {name: "x", on: true}
`
	source, problems := strictyaml.Parse("f.yaml", []byte(text))
	var got thing
	doc, more := source.Decode(&got, strictyaml.Options{Expression: isExpression})
	problems = append(problems, more...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	type found struct {
		Field string
		Line  int
		Text  string
		Want  string
	}
	var all []found
	for _, e := range doc.Expressions() {
		all = append(all, found{e.Field, e.Line, e.Text, e.Want.String()})
	}
	want := []found{
		{"name", 1, "${{ a }}", "string"}, {"count", 2, "${{ b }}", "int"}, {"on", 3, "${{ c }}", "bool"},
		{"list", 4, "${{ d }}", "[]string"},
		{"object.x", 7, "${{ e }}\n", "interface {}"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("expressions (-want +got):\n%s", diff)
	}
	values := map[string]any{"${{ a }}": "true", "${{ b }}": int64(4), "${{ c }}": true, "${{ d }}": []any{"x", "1"},
		"${{ e }}\n": map[string]any{"y": 1.5}}
	expanded := source.Expand(func(text string) (any, bool) { v, ok := values[text]; return v, ok })
	got = thing{}
	doc, problems = expanded.Decode(&got, strictyaml.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	four := 4
	if diff := cmp.Diff(thing{Name: "true", Count: &four, On: true, List: []string{"x", "1"},
		Object: map[string]any{"x": map[string]any{"y": 1.5}},
		Inner:  &thing{Name: "x", On: true}}, got); diff != "" {
		t.Errorf("expanded (-want +got):\n%s", diff)
	}
	if line := doc.Line("object.x.y"); line != 6 {
		t.Errorf("an expanded field stands in line %d, want that of its expression, 6", line)
	}
	// The source itself is as it was.
	again := thing{}
	if doc, _ := source.Decode(&again,
		strictyaml.Options{Expression: isExpression}); len(doc.Expressions()) != len(want) {
		t.Error("Expand has changed the source")
	}
	if reflect.DeepEqual(again, got) {
		t.Error("Expand has changed the source")
	}
	if _, problems := source.Decode(&thing{}, strictyaml.Options{}); len(problems) != 3 {
		t.Errorf("without expressions there are these problems: %v, want 3", problems)
	}
}

func TestParseAll(t *testing.T) {
	sources, problems := strictyaml.ParseAll("f", []byte("# one\na: 1\n---\n# nothing\n---\nb: 2\n---\n[\n"))
	var lines []int
	for _, s := range sources {
		doc, _ := s.Decode(&map[string]int{}, strictyaml.Options{})
		lines = append(lines, doc.Line(""))
	}
	if diff := cmp.Diff([]int{2, 6}, lines); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if len(problems) != 1 {
		t.Errorf("problems: %v", problems)
	}
}

// TestSyntax checks that the excerpt of a syntax error has a caret below the first invalid character or the unclosed
// bracket.
func TestSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: @x\n": "f:2: found character that cannot start any token\n    " +
			"b: @x\n       ^",
		"a: b: c\n": "f:1: mapping values are not allowed in this context\n    a: " +
			"b: c\n        ^",
		"a: 1\n---\na:\n  - 1\n b: 2\n": "f:5: did not find expected key\n    b: 2\n    ^",
		"a: 1\nb: 'x\nc: 1\n":           "f:2: found unexpected end of stream\n    b: 'x\n       ^",
		"a: 1\r\nb: *x\r\n":             "f:2: unknown anchor 'x' referenced\n    b: *x\n       ^",
		"模块: [一, 二 } ]\n": "f:1: did not find expected ',' or ']'\n    模块: [一, 二 } ]\n" +
			"              ^",
		"a: {b: 1}\nc: [{d: ${{ vars.a }}}]\n": "f:2: did not find expected ',' or '}'\n    c: [{d: ${{ vars.a " +
			"}}}]\n             ^",
		"{\n \"a\": [\"]\", '}'],\n \"b\" 2\n}": "f:3: did not find expected ',' or '}'\n    \"b\" 2\n        ^",
		"{\"kind\": \"error\"": "f:1: did not find expected ',' or '}'\n    {\"kind\": " +
			"\"error\"\n    ^",
		"{\"kind\": \"error}": "f:1: found unexpected end of stream\n    {\"kind\": \"error}\n             ^",
		strings.Repeat("- {a: 'b\n    c'}\n", 100) + "- @\n" +
			strings.Repeat("- d\n", 100): "f:201: found character that cannot start any token\n    - @\n      ^",
		strings.Repeat("- a\n", 20) + "- 'b\n" + strings.Repeat("  c\n", 30) +
			"  '\n- @\n": "f:53: found character that cannot start any token\n    - @\n      ^",
		// too long to look for it
		"a: '" + strings.Repeat("b\n", 40<<10) + "'\nb: @\n": "f:40962: found character that cannot start any token",
	} {
		_, problems := strictyaml.Parse("f", []byte(text))
		place, parser, _ := strings.Cut(want, " ")
		if got := problems.Error(); problems[0].Kind != strictyaml.Syntax || !strings.HasPrefix(got, place+" ") ||
			!strings.HasSuffix(got, ": "+parser) {
			t.Errorf("%.60q: got %s\nwant %s", text, got, want)
		}
	}
}

// TestMerge checks that merge keys and aliases are resolved as in kubectl, and that each merged field has the line
// number of its value.
func TestMerge(t *testing.T) {
	for _, text := range []string{
		"any: &a {x: 1, w: [2]}\nobject: {<<: *a, x: 3}",
		"any: [&a {x: 1}, {<<: *a, w: 2}, {<<: *a}]",
		"any: [&a {x: 1}, &b {x: 2, z: 3}, {<<: [*a, *b], w: 2}]",
		"any: [&a {x: {p: 1}}, &b {<<: *a, w: 1}, {<<: *b, x: {q: 2}}]",
		"any: {<<: {x: 1}, \"<<\": 2}",
		"any: {<<: [], x: 1}",
		"any: [&a {x: 1}, {x: 2, <<: *a}, {x: 2, <<: *a, w: 3, x: 4}]",
		"any: [&a {x: 1}, &b {x: 2}, {<<: *a, <<: *b}]",
	} {
		var want, got any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		_, problems := strictyaml.Decode("f", []byte(text), &thing{})
		sources, more := strictyaml.ParseAll("f", []byte(text))
		problems = append(problems, more...)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", text, problems)
		}
		_, problems = sources[0].Decode(&got, strictyaml.Options{})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", text, problems)
		}
		asJSON, err := json.Marshal(got)
		if err == nil {
			err = json.Unmarshal(asJSON, &got) // numbers as kubectl has them
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-kubectl +got):\n%s", text, err, diff)
		}
	}
	const text = "any:\n- &a\n  x: 1\n  y: 2\n- <<: *a\n  x: 3\n"
	doc, problems := strictyaml.Decode("f", []byte(text), &thing{})
	if len(problems) > 0 || doc.Line("any[1].x") != 6 || doc.Line("any[1].y") != 4 || doc.Line("any[1]") != 5 {
		t.Errorf("lines %d, %d, %d, problems %v", doc.Line("any[1].x"), doc.Line("any[1].y"), doc.Line("any[1]"),
			problems)
	}
}

// TestRewritten checks that numbers and booleans that are written differently than they would be printed are returned
// with their positions.
func TestRewritten(t *testing.T) {
	for text, want := range map[string]string{
		"1.10": "1.1", "2.0": "2", "1e3": "1000", "0x10": "16", "010": "8", "0o10": "8", "1_000": "1000", "+1": "1",
		".5": "0.5", "08": "8",
		"12345678901234567890123": "12345678901234568000000", "TRUE": "true",
		"1.9": "", "10": "", "-3": "", "0.25": "", "true": "", "on": "", "1.2.3": "", "2026-11-29": "", `"1.10"`: "",
		"'010'": "", "12:30": "",
	} {
		doc, problems := strictyaml.Decode("f", []byte("any:\n- "+text), &thing{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		expected := problem{2, "any[0]", strictyaml.Rewritten, " " + want}
		if want == "" {
			expected = problem{}
		}
		expected.check(t, text, doc.Rewritten())
	}
}

// TestManifest checks that manifests are read as YAML 1.1, as kubectl does, and that a part of a manifest can be
// decoded into a type with more or fewer fields.
func TestManifest(t *testing.T) {
	sources, problems := strictyaml.ParseAll("f",
		[]byte("any: {a: on, b: [No, y], c: \"on\", d: one}\n---\nobject:\n  name: off\n  other: 1\n  \"on\": yes\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var first, second thing
	_, problems = sources[0].Decode(&first, strictyaml.Options{})
	if len(problems) > 0 {
		t.Error(problems)
	}
	if diff := cmp.Diff(any(map[string]any{"a": true, "b": []any{false, true}, "c": "on", "d": "one"}),
		first.Any); diff != "" {
		t.Errorf("booleans (-want +got):\n%s", diff)
	}
	doc, _ := sources[1].Decode(&second, strictyaml.Options{})
	var part thing
	_, problems = doc.Source("object").Decode(&part, strictyaml.Options{Partial: true})
	problem{4, "object.name", strictyaml.WrongType, `"off"`}.check(t, "a part", problems)
	if !part.On {
		t.Error("yes is not read as true")
	}
	_, problems = strictyaml.ParseAll("f", []byte("any:\n  on: 1\n  \"no\": 2"))
	problem{2, "", strictyaml.InvalidName, `"on"`}.check(t, "a name", problems)
	if !doc.Source("gone").Empty() {
		t.Error("there is a source of a field that the file does not have")
	}
}
