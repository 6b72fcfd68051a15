// Package match compares a part of an object with an object, field by field.
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

// Difference is one field that is not as wanted.
type Difference struct {
	// Path of the field, such as status.conditions[1].status.
	Path string
	// Want is the wanted value, nil = the field must not be there.
	Want any
	// Got is the value that is there; it means nothing with Missing.
	Got any
	// Missing tells that the field is not there at all.
	Missing bool
}

// Result of a comparison.
type Result struct {
	// Compared is how many values were compared; 0 = want had none, which proves nothing.
	Compared int
	// Differences in the order of the fields' names; empty = it matches.
	Differences []Difference
}

// Matches tells whether something was compared and nothing differed.
func (r Result) Matches() bool { return r.Compared > 0 && len(r.Differences) == 0 }

// Compare looks for every value of want in got. A mapping may have more fields than want's. The
// elements of a list must be there in want's order, with others between them; an empty list or
// mapping wants an empty one. Null wants a field that is absent or null. Numbers are equal by
// value, whatever their types. got must have the types of an object of the API, as Plain gives.
func Compare(want, got any) Result {
	c := &comparison{}
	c.value("", Normalize(want), got, true)
	return c.Result
}

type comparison struct{ Result }

func (c *comparison) differs(d Difference) { c.Differences = append(c.Differences, d) }

func (c *comparison) value(path string, want, got any, there bool) {
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
		c.differs(Difference{Path: path, Want: want, Got: got, Missing: !there})
	}
}

func (c *comparison) fields(path string, want, got map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, there := got[name]
		c.value(join(path, name), want[name], value, there)
	}
}

// elements looks for each wanted element behind the previous match. If there is none, it reports the differences of
// the closest element.
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
		default: // later elements may still be found behind the last that matched
			c.Compared += best.Compared
			c.Differences = append(c.Differences, best.Differences...)
		}
	}
}

// closer reports whether a has fewer differences than b. Differences of the fields name and type are compared first.
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

// Normalize brings values to the types that objects of the API have: mappings by string, lists of any,
// int64, float64, string and bool. Values that no JSON can hold stay as they are.
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
