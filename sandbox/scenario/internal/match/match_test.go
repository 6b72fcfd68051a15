package match

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

const pod = `
metadata: {name: p, labels: {app: shop, example.com/tier: web}}
spec:
  containers:
  - {name: a, image: one}
  - {name: b, image: two}
  - {name: c, image: three}
status:
  conditions:
  - {type: Initialized, status: "True"}
  - {type: Ready, status: "False", reason: Waiting}
  replicas: 3
  empty: []
`

func TestCompare(t *testing.T) {
	tests := []struct {
		name, want string
		compared   int
		lines      string
	}{
		{"one field", `status: {replicas: 3}`, 1, ""},
		{"a whole number as a float", `status: {replicas: 3.0}`, 1, ""},
		{"another value", `status: {replicas: 2}`, 1, `status.replicas: want 2, got 3`},
		{"a number is no string", `status: {replicas: "3"}`, 1, `status.replicas: want "3", got 3`},
		{"a missing field", `status: {ready: 2}`, 1, `status.ready: want 2, but it is missing`},
		{"a missing mapping", `status: {a: {b: 1}}`, 1, `status.a: want {"b":1}, but it is missing`},
		{"a field that must be absent", `status: {ready: null}`, 1, ""},
		{"a field that must be absent but exists", `status: {replicas: null}`, 1,
			`status.replicas: want no value, got 3`},
		{"a name with dots", `metadata: {labels: {example.com/tier: db}}`, 1,
			`metadata.labels[example.com/tier]: want "db", got "web"`},
		{"nothing", `{}`, 1, `the object: want {}, got `},
		{"an empty list", `status: {empty: []}`, 1, ""},
		{"a list that is to be empty", `spec: {containers: []}`, 1,
			`spec.containers: want [], got [{"image":"one","name":"a"},{"image":"two","name":"b"},{"image":"three","name":"c"}]`},
		{"elements in order, others between", `spec: {containers: [{name: a}, {name: c, image: three}]}`, 3, ""},
		{"elements out of order", `spec: {containers: [{name: b}, {name: a}]}`, 2,
			`spec.containers[2].name: want "a", got "c"`},
		{"the element of the same name tells what is wrong", `spec: {containers: [{name: b, image: x}]}`, 2,
			`spec.containers[1].image: want "x", got "two"`},
		{"the condition of the same type", `status: {conditions: [{type: Ready, status: "True", reason: Up}]}`, 3,
			`status.conditions[1].reason: want "Up", got "Waiting"` + "\n" +
				`status.conditions[1].status: want "True", got "False"`},
		{"too many elements", `spec: {containers: [{name: a}, {name: b}, {name: c}, {name: d}]}`, 4,
			`spec.containers[3]: want {"name":"d"}, but it is missing`},
		{"a list where a mapping is", `status: [1]`, 1, `status: want [1], got `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Compare(parse(t, tt.want), parse(t, pod))
			if r.Compared != tt.compared {
				t.Errorf("compared %d values, want %d", r.Compared, tt.compared)
			}
			got := Lines(r.Differences)
			if n := len(tt.lines); n > 0 && n < len(got) && tt.lines[n-1] == ' ' {
				got = got[:n] // without the whole object
			}
			if diff := cmp.Diff(tt.lines, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if r.Matches() != (tt.lines == "") {
				t.Errorf("Matches = %t", r.Matches())
			}
		})
	}
}

func TestCompareTypedValues(t *testing.T) {
	type anything any
	type object map[string]anything
	want := object{"spec": object{"replicas": 3, "list": []anything{int32(1)}}}
	r := Compare(want, parse(t, `{spec: {replicas: 3, list: [1], more: x}}`))
	if diff := cmp.Diff(Result{Compared: 2}, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestObject(t *testing.T) {
	o, ok := parse(t, `{metadata: {name: p, managedFields: [{manager: x}]}, spec: {a: 1}}`).(map[string]any)
	if !ok {
		t.Fatal("no object")
	}
	if diff := cmp.Diff("metadata:\n  name: p\nspec:\n  a: 1\n", Object(o)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if _, kept := o["metadata"].(map[string]any)["managedFields"]; !kept {
		t.Error("the original object was changed")
	}
}
