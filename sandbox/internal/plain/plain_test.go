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
		"nothing":                     {"", shown{"", ""}},
		"letters of any writing":      {"stock:1.0 é 中 ✓", shown{"stock:1.0 é 中 ✓", "stock:1.0 é 中 ✓"}},
		"line ends and tabs":          {"a\nb\tc", shown{`a\nb\tc`, "a\nb\tc"}},
		"a carriage return":           {"a\r\nb", shown{`a\r\nb`, "a\\r\nb"}},
		"commands to a terminal":      {"\x1b[2J\x00\x07", shown{`\x1b[2J\x00\a`, `\x1b[2J\x00\a`}},
		"commands of eight bits":      {"\u009b2J", shown{`\u009b2J`, `\u009b2J`}},
		"another direction":           {"\u202etxet", shown{`\u202etxet`, `\u202etxet`}},
		"what XML cannot hold":        {"\ufffe", shown{`\ufffe`, `\ufffe`}},
		"bytes that are no character": {"a\xff", shown{"a\ufffd", "a\ufffd"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shown{plain.Text(tc.text), plain.Lines(tc.text)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
