package plain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func TestText(t *testing.T) {
	type shown struct{ Text, Lines string }
	for name, tc := range map[string]struct {
		text string
		want shown
	}{
		"empty":                     {"", shown{"", ""}},
		"letters of any script":     {"stock:1.0 é 中 ✓", shown{"stock:1.0 é 中 ✓", "stock:1.0 é 中 ✓"}},
		"line ends and tabs":        {"a\nb\tc", shown{`a\nb\tc`, "a\nb\tc"}},
		"a carriage return":         {"a\r\nb", shown{`a\r\nb`, "a\\r\nb"}},
		"terminal escape sequences": {"\x1b[2J\x00\x07", shown{`\x1b[2J\x00\a`, `\x1b[2J\x00\a`}},
		"8-bit control characters":  {"\u009b2J", shown{`\u009b2J`, `\u009b2J`}},
		"bidirectional control":     {"\u202etxet", shown{`\u202etxet`, `\u202etxet`}},
		"invalid in XML":            {"\ufffe", shown{`\ufffe`, `\ufffe`}},
		"invalid UTF-8":             {"a\xff", shown{"a\ufffd", "a\ufffd"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shown{plain.Text(tc.text), plain.Lines(tc.text)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
