package recording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// absent is how a Difference shows a value that is not there.
const absent = "absent"

// Difference is one place where the simulated base answers otherwise.
type Difference struct {
	// Path is where: $ for the whole answer, then fields and [indices]; "head" is
	// status line and header of an HTTP answer.
	Path string `json:"path"`
	// Real and Fake are the values as JSON, or "absent".
	Real string `json:"real"`
	Fake string `json:"fake"`
}

// CompareHTTP compares two HTTP answers: heads as text, bodies as JSON where they are that.
func CompareHTTP(seen, fake string) []Difference {
	seenHead, seenBody, _ := strings.Cut(seen, "\r\n\r\n")
	fakeHead, fakeBody, _ := strings.Cut(fake, "\r\n\r\n")
	var out []Difference
	if seenHead != fakeHead {
		out = append(out, Difference{"head", seenHead, fakeHead})
	}
	return append(out, ComparePayload(seenBody, fakeBody)...)
}

// CompareMessages compares what came over MQTT: topics and, where they agree, payloads.
func CompareMessages(seen, fake []Message) []Difference {
	topics := func(list []Message) string {
		all := make([]string, len(list))
		for i, m := range list {
			all[i] = m.Topic
		}
		return strings.Join(all, " ")
	}
	if r, f := topics(seen), topics(fake); r != f {
		return []Difference{{"topics", orAbsent(r), orAbsent(f)}}
	}
	var out []Difference
	for i := range seen {
		out = append(out, ComparePayload(seen[i].Payload, fake[i].Payload)...)
	}
	return out
}

func orAbsent(text string) string { return cmp.Or(text, absent) }

// ComparePayload compares two texts, as JSON if both are that. Lists of objects
// are sets: a base lists its modules and commands in no order.
func ComparePayload(seen, fake string) []Difference {
	var r, f any
	if json.Unmarshal([]byte(seen), &r) != nil || json.Unmarshal([]byte(fake), &f) != nil {
		if seen == fake {
			return nil
		}
		return []Difference{{"$", seen, fake}}
	}
	var out []Difference
	compare("$", r, f, &out)
	return out
}

func compare(path string, seen, fake any, out *[]Difference) {
	switch r := seen.(type) {
	case map[string]any:
		f, ok := fake.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Collect(maps.Keys(r))
		for key := range f {
			if _, both := r[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			rv, inReal := r[key]
			fv, inFake := f[key]
			switch {
			case inReal && inFake:
				compare(path+"."+key, rv, fv, out)
			case inReal:
				*out = append(*out, Difference{path + "." + key, show(rv), absent})
			default:
				*out = append(*out, Difference{path + "." + key, absent, show(fv)})
			}
		}
		return
	case []any:
		f, ok := fake.([]any)
		if !ok {
			break
		}
		if len(r) != len(f) {
			*out = append(*out, Difference{path, show(seen), show(fake)})
			return
		}
		sortObjects(r)
		sortObjects(f)
		for i := range r {
			compare(fmt.Sprintf("%s[%d]", path, i), r[i], f[i], out)
		}
		return
	}
	if r, f := show(seen), show(fake); r != f {
		*out = append(*out, Difference{path, r, f})
	}
}

// sortObjects orders a list of objects by what names them. Records of states have
// no name, and stay in order.
func sortObjects(list []any) {
	name := func(v any) string {
		object, _ := v.(map[string]any)
		for _, key := range []string{"id", "bizName", "name", "pluginName"} {
			if id, ok := object[key].(string); ok {
				return id + ":" + fmt.Sprint(object["bizVersion"], object["version"])
			}
		}
		return ""
	}
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(name(a), name(b)) })
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // what was decoded can be encoded
	}
	return string(text)
}
