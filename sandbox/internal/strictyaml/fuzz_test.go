package strictyaml_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// FuzzDecode checks two properties of Decode. The value of a valid file must not change when it is encoded as JSON
// and decoded again. Each problem of an invalid file must have a line number within the file.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		var first thing
		doc, problems := strictyaml.Decode("f.yaml", text, &first)
		lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + 2
		for _, p := range problems {
			if p.Source != "f.yaml" || p.Detail == "" || p.Line < 0 || p.Line > lines || p.Field != "" && p.Line == 0 {
				t.Errorf("incomplete problem in a file of %d lines: %+v", lines, p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if at := doc.Line("object.a.b[3]"); at < 0 || at > lines {
			t.Errorf("a field is in line %d of %d", at, lines)
		}
		written, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", first, err)
		}
		var second thing
		if _, problems := strictyaml.Decode("again", written, &second); len(problems) > 0 {
			t.Fatalf("%s is rejected: %v", written, problems)
		}
		// A float without a fraction is written without a decimal point.
		number := cmp.Transformer("number", func(v any) any {
			if n, is := v.(int64); is {
				return float64(n)
			}
			return v
		})
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty(), cmp.FilterValues(func(x, y any) bool {
			_, one := x.(int64)
			_, other := y.(int64)
			return one != other
		}, number)); diff != "" {
			t.Errorf("%s (-first +second):\n%s", written, diff)
		}
	})
}
