package fakebase

import (
	gocmp "cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// absent is the text that stands for a missing value.
const absent = "absent"

// mismatch is a difference between the responses of the real and the simulated base.
type mismatch struct {
	// Path is the path of the value: $ followed by fields and [indices], or "head" for the status line and the
	// headers of an HTTP response.
	Path string `json:"path"`
	// Real and Fake are the values in the two responses as JSON, or "absent".
	Real string `json:"real"`
	Fake string `json:"fake"`
}

// compareHTTP compares two HTTP responses. It compares bodies as JSON if possible.
func compareHTTP(recorded, simulated string) []mismatch {
	realHead, realBody, _ := strings.Cut(recorded, "\r\n\r\n")
	fakeHead, fakeBody, _ := strings.Cut(simulated, "\r\n\r\n")
	var out []mismatch
	if realHead != fakeHead {
		out = append(out, mismatch{"head", realHead, fakeHead})
	}
	return append(out, comparePayload(realBody, fakeBody)...)
}

// compareMessages compares the topics of MQTT messages and, if they are equal, the payloads.
func compareMessages(recorded, simulated []recording.Message) []mismatch {
	topics := func(list []recording.Message) string {
		all := make([]string, len(list))
		for i, m := range list {
			all[i] = m.Topic
		}
		return strings.Join(all, " ")
	}
	if r, f := topics(recorded), topics(simulated); r != f {
		return []mismatch{{"topics", orAbsent(r), orAbsent(f)}}
	}
	var out []mismatch
	for i := range recorded {
		out = append(out, comparePayload(recorded[i].Payload, simulated[i].Payload)...)
	}
	return out
}

// compareSent compares the packets or requests of two bases in a phase.
func compareSent(recorded, simulated []recording.Sent) []mismatch {
	lines := func(list []recording.Sent) string {
		all := make([]string, len(list))
		for i, s := range list {
			all[i] = s.What
		}
		return strings.Join(all, "; ")
	}
	if r, f := lines(recorded), lines(simulated); r != f {
		return []mismatch{{"sent", orAbsent(r), orAbsent(f)}}
	}
	var out []mismatch
	for i := range recorded {
		out = append(out, comparePayload(recorded[i].Payload, simulated[i].Payload)...)
	}
	return out
}

func orAbsent(text string) string { return gocmp.Or(text, absent) }

// comparePayload compares two texts, as JSON if possible. The order of objects in a list is ignored, because a base
// lists modules and commands in no particular order.
func comparePayload(recorded, simulated string) []mismatch {
	var r, f any
	if json.Unmarshal([]byte(recorded), &r) != nil || json.Unmarshal([]byte(simulated), &f) != nil {
		if recorded == simulated {
			return nil
		}
		return []mismatch{{"$", recorded, simulated}}
	}
	var out []mismatch
	compare("$", r, f, &out)
	return out
}

func compare(path string, recorded, simulated any, out *[]mismatch) {
	switch r := recorded.(type) {
	case map[string]any:
		f, ok := simulated.(map[string]any)
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
				*out = append(*out, mismatch{path + "." + key, toJSON(rv), absent})
			default:
				*out = append(*out, mismatch{path + "." + key, absent, toJSON(fv)})
			}
		}
		return
	case []any:
		f, ok := simulated.([]any)
		if !ok {
			break
		}
		if len(r) != len(f) {
			*out = append(*out, mismatch{path, toJSON(recorded), toJSON(simulated)})
			return
		}
		sortObjects(r)
		sortObjects(f)
		for i := range r {
			compare(fmt.Sprintf("%s[%d]", path, i), r[i], f[i], out)
		}
		return
	}
	if r, f := toJSON(recorded), toJSON(simulated); r != f {
		*out = append(*out, mismatch{path, r, f})
	}
}

// sortObjects sorts a list of objects by name. Objects without a name, such as state records, keep their order.
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

func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // not possible for a decoded value
	}
	return string(text)
}

func TestCompareRecordings(t *testing.T) {
	for _, c := range []struct {
		name, recorded, simulated string
		want                      []mismatch
	}{
		{"different order", `{"a":1,"b":[{"id":"x"},{"id":"y"}]}`, `{"b":[{"id":"y"},{"id":"x"}],"a":1}`,
			nil},
		{"values", `{"a":{"b":1}}`, `{"a":{"b":"1"}}`, []mismatch{{Path: "$.a.b", Real: "1", Fake: `"1"`}}},
		{"fields", `{"a":1}`, `{"b":2}`,
			[]mismatch{{Path: "$.a", Real: "1", Fake: "absent"}, {Path: "$.b", Real: "absent", Fake: "2"}}},
		{"list element", `[{"v":1},{"v":2}]`, `[{"v":1},{"v":3}]`, []mismatch{{Path: "$[1].v", Real: "2", Fake: "3"}}},
		{"lengths", `[]`, `[1]`, []mismatch{{Path: "$", Real: "[]", Fake: "[1]"}}},
		{"not JSON", `x`, `{}`, []mismatch{{Path: "$", Real: "x", Fake: "{}"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, comparePayload(c.recorded, c.simulated)); d != "" {
				t.Errorf("mismatches (-want +got):\n%s", d)
			}
		})
	}
	t.Run("heads", func(t *testing.T) {
		got := compareHTTP("HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 404 Not Found\r\n\r\n{}")
		if d := cmp.Diff([]mismatch{{Path: "head", Real: "HTTP/1.1 200 OK", Fake: "HTTP/1.1 404 Not Found"}},
			got); d != "" {
			t.Errorf("mismatches (-want +got):\n%s", d)
		}
	})
	t.Run("sent messages", func(t *testing.T) {
		heart := recording.Sent{What: "PUBLISH base/heart QoS 1", Payload: `{"port":0}`}
		other := recording.Sent{What: heart.What, Payload: `{"port":1}`}
		for _, c := range []struct {
			name                string
			recorded, simulated []recording.Sent
			want                []mismatch
		}{
			{"missing message", []recording.Sent{heart, heart}, []recording.Sent{heart},
				[]mismatch{{Path: "sent", Real: heart.What + "; " + heart.What, Fake: heart.What}}},
			{"no messages", []recording.Sent{}, []recording.Sent{heart},
				[]mismatch{{Path: "sent", Real: "absent", Fake: heart.What}}},
			{"different payload", []recording.Sent{heart}, []recording.Sent{other},
				[]mismatch{{Path: "$.port", Real: "0", Fake: "1"}}},
		} {
			if d := cmp.Diff(c.want, compareSent(c.recorded, c.simulated)); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, d)
			}
		}
	})
	t.Run("topics", func(t *testing.T) {
		got := compareMessages([]recording.Message{{Topic: "base/health", Payload: "{}"}}, nil)
		if d := cmp.Diff([]mismatch{{Path: "topics", Real: "base/health", Fake: "absent"}}, got); d != "" {
			t.Errorf("mismatches (-want +got):\n%s", d)
		}
	})
}
