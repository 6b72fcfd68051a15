// Package match compares parts of objects with objects, field by field.
package match

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Difference is a field whose actual value differs from the wanted value.
type Difference struct {
	// Path is the path of the field, such as status.conditions[1].status.
	Path string
	// Want is the wanted value; nil means that the field must not exist.
	Want any
	// Got is the actual value; undefined if Missing is set.
	Got any
	// Missing reports whether the field does not exist.
	Missing bool
}

// Result is the result of a comparison.
type Result struct {
	// Compared is the number of compared values. If it is 0, the comparison proves nothing.
	Compared int
	// Differences lists the differences, sorted by the name of the field. It is empty if the object matches.
	Differences []Difference
}

// Matches reports whether at least one value was compared and no value differed.
func (r Result) Matches() bool { return r.Compared > 0 && len(r.Differences) == 0 }

// Compare compares every value in want with the value in got. Mappings in got may have additional fields. Lists in
// got may have additional elements, but the wanted elements must appear in the same order. An empty list matches only
// an empty list, and an empty mapping only an empty mapping. Null matches a field that is absent or null. Numbers of
// different types are compared by value. The values in got must have the types that Normalize returns.
func Compare(want, got any) Result {
	c := &comparison{}
	c.value("", Normalize(want), got, true)
	return c.Result
}

type comparison struct{ Result }

func (c *comparison) differs(d Difference) { c.Differences = append(c.Differences, d) }

func (c *comparison) value(path string, want, got any, exists bool) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok && (len(want) > 0 || len(got) == 0) {
			if len(want) == 0 {
				c.Compared++
			}
			c.fields(path, want, got)
			return
		}
	case []any:
		if got, ok := got.([]any); ok && (len(want) > 0 || len(got) == 0) {
			if len(want) == 0 {
				c.Compared++
			}
			c.elements(path, want, got)
			return
		}
	}
	c.Compared++
	if !equal(want, got) {
		c.differs(Difference{Path: path, Want: want, Got: got, Missing: !exists})
	}
}

func (c *comparison) fields(path string, want, got map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, exists := got[name]
		c.value(join(path, name), want[name], value, exists)
	}
}

// elements searches for each wanted list element after the position of the previous match. If no element matches,
// elements adds the differences from the most similar element.
func (c *comparison) elements(path string, want, got []any) {
	next := 0
	for i, w := range want {
		best, bestAt, found := comparison{}, -1, false
		for at := next; at < len(got); at++ {
			try := comparison{}
			try.value(fmt.Sprintf("%s[%d]", path, at), w, got[at], true)
			if bestAt < 0 || closer(try.Result, best.Result) {
				best, bestAt = try, at
			}
			if len(try.Differences) == 0 {
				found = true
				break
			}
		}
		switch {
		case bestAt < 0:
			c.Compared++
			c.differs(Difference{Path: fmt.Sprintf("%s[%d]", path, i), Want: w, Missing: true})
		case found:
			c.Compared += best.Compared
			next = bestAt + 1
		default: // later elements are still searched for after the previous match
			c.Compared += best.Compared
			c.Differences = append(c.Differences, best.Differences...)
		}
	}
}

// closer reports whether a has fewer differences than b. Differences in the fields name and type are compared first.
func closer(a, b Result) bool {
	named := func(r Result) int {
		n := 0
		for _, d := range r.Differences {
			if strings.HasSuffix(d.Path, "].name") || strings.HasSuffix(d.Path, "].type") {
				n++
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(named(a), named(b)), cmp.Compare(len(a.Differences), len(b.Differences))) < 0
}

func equal(want, got any) bool {
	a, isNumber := number(want)
	b, areNumbers := number(got)
	if isNumber || areNumbers {
		return isNumber && areNumbers && a == b
	}
	return reflect.DeepEqual(want, got)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Normalize converts a value to the types of unstructured objects: map[string]any, []any, int64, float64, string and
// bool. Values that cannot be encoded as JSON are returned unchanged.
func Normalize(v any) any {
	switch v.(type) {
	case nil, string, bool, int64, float64:
		return v
	}
	var plain any
	text, err := json.Marshal(v)
	if err == nil {
		err = utiljson.Unmarshal(text, &plain)
	}
	if err != nil {
		return v
	}
	return plain
}

func join(path, name string) string {
	if strings.ContainsAny(name, "./") {
		return path + "[" + name + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
